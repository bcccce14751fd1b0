(** Nodes that are adjoint by construction.

    A linear map is kept together with its transpose and the proof that it is one. A node is its forward function plus,
    for each argument, a linear map that may depend in any way on the point and on the environment: its Jacobian. One lemma
    covers every such node. *)
Require Import List Arith Lia Ring.
Import ListNotations.
From Backproof Require Import Tensor Graph.
Set Implicit Arguments.

Section Local.
Variable R : Type.
Variables (r0 r1 : R) (radd rmul : R -> R -> R).
Variable D : Type.
Infix "+" := radd.
Infix "*" := rmul.
Notation tensor := (tensor R).
Notation ctx := (ctx R).
Notation tadd := (tadd radd).
Notation tmul := (tmul rmul).
Notation tzero := (tzero r0).
Notation dot := (dot r0 radd rmul).
Notation node := (node R D).
Notation adjoint := (adjoint r0 radd rmul).

Record linmap (s t : shape) := {
  push : tensor s -> tensor t;
  pull : tensor t -> tensor s;
  transposed : forall v delta, dot t (push v) delta = dot s v (pull delta) }.

(** One argument of a node: which earlier value it is, and the Jacobian with respect to it. *)
Definition part G t := {s : shape & (idx G s * (D -> ctx G -> linmap s t))%type}.
Definition mkpart G s t (a : idx G s) (J : D -> ctx G -> linmap s t) : part G t := existT _ s (a, J).
Definition part_jvp G t (d : D) (x dx : ctx G) (p : part G t) : tensor t :=
  push (snd (projT2 p) d x) (cget R (fst (projT2 p)) dx).
Definition part_vjp G t (d : D) (x : ctx G) (delta : tensor t) (p : part G t) : contrib R G :=
  mkc R (fst (projT2 p)) (pull (snd (projT2 p) d x) delta).
Definition sum_tangents t (l : list (tensor t)) : tensor t := fold_right (tadd t) (tzero t) l.

Definition local G t (F : D -> ctx G -> tensor t) (parts : list (part G t)) : node G t :=
  {| fwd := F;
     jvp := fun d x dx => sum_tangents t (map (part_jvp d x dx) parts);
     vjp := fun d x delta => map (part_vjp d x delta) parts |}.

Hypothesis SR : semi_ring_theory r0 r1 radd rmul (@eq R).
Add Ring Rring : SR.

(** Any number of arguments, any Jacobians: forward and reverse mode are adjoint. *)
Theorem local_adjoint G t F (parts : list (part G t)) : adjoint (local F parts).
Proof.
  intros d x dx delta; cbn [jvp vjp local].
  induction parts as [|[s [a J]] parts IH]; cbn [map sum_tangents fold_right dense].
  - now rewrite (dot_zero_l SR), (cdot_zero_r SR).
  - rewrite (dot_add_l SR), (cdot_add_r SR). f_equal; [|exact IH].
    unfold dense1, part_vjp, part_jvp, mkc; simpl. rewrite (cdot_single SR). apply transposed.
Qed.

(** * Diagonal maps, hence every elementwise function *)
Definition diagonal s (c : tensor s) : linmap s s :=
  {| push := tmul s c; pull := tmul s c; transposed := dot_mul SR s c |}.

(** Element by element, the list of the arguments' elements. *)
Fixpoint rows G s (args : list (idx G s)) (c : ctx G) : Tensor.tensor (list R) s :=
  match args with
  | [] => tfill [] s
  | a :: args => tzip cons s (cget R a c) (rows args c)
  end.

(** A function f of any number of arguments, with any partial derivatives: the slope with respect to an argument is a
    function of the arguments' elements. [None] says that the argument has no derivative, such as a mask. *)
Definition slope := option (list R -> R).
Definition slope_parts G s (all : list (idx G s)) : list (idx G s) -> list slope -> list (part G s) :=
  fix go args slopes :=
    match args, slopes with
    | a :: args, Some p :: slopes =>
        mkpart a (fun (_ : D) x => diagonal s (tmap p s (rows all x))) :: go args slopes
    | a :: args, None :: slopes => go args slopes
    | _, _ => []
    end.
Definition n_elementwise G s (f : list R -> R) (slopes : list slope) (args : list (idx G s)) : node G s :=
  local (fun (_ : D) x => tmap f s (rows args x)) (slope_parts args args slopes).

Corollary elementwise_adjoint G s f slopes (args : list (idx G s)) : adjoint (n_elementwise f slopes args).
Proof. apply local_adjoint. Qed.

(** * Values without derivative *)
Definition n_constant G s (v : D -> tensor s) : node G s := local (fun d _ => v d) [].
(** Any function of the earlier values whose derivative is declared to be nothing: stop_gradient, argmax, comparisons. *)
Definition n_opaque G s (F : D -> ctx G -> tensor s) : node G s := local F [].
Corollary constant_adjoint G s v : adjoint (@n_constant G s v).
Proof. apply local_adjoint. Qed.
Corollary opaque_adjoint G s F : adjoint (@n_opaque G s F).
Proof. apply local_adjoint. Qed.
End Local.
