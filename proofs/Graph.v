(** Graphs, and what evaluating, forward mode and backpropagation mean on them.

    A node is three functions of the earlier values: its value, its tangent (jvp), and its contributions to earlier
    gradients (vjp). A graph is a list of nodes in the order in which they were recorded. [D] is an environment that has
    no derivative, such as integer labels. *)
Require Import List Arith Lia Ring.
Import ListNotations.
From Backproof Require Import Tensor.
Set Implicit Arguments.

Section Graph.
Variable R : Type.
Variables (r0 r1 : R) (radd rmul : R -> R -> R).
Variable D : Type.
Infix "+" := radd.
Notation tensor := (tensor R).
Notation ctx := (ctx R).
Notation tadd := (tadd radd).
Notation dot := (dot r0 radd rmul).
Notation cadd := (cadd radd).
Notation cdot := (cdot r0 radd rmul).
Notation csingle := (csingle r0).
Notation czero := (czero r0).

(** A contribution: an earlier value, and what to add to its gradient. *)
Definition contrib G : Type := {s : shape & (idx G s * tensor s)%type}.
Definition mkc G s (i : idx G s) (v : tensor s) : contrib G := existT _ s (i, v).
Definition dense1 G (c : contrib G) : ctx G := csingle (fst (projT2 c)) (snd (projT2 c)).
Fixpoint dense G (l : list (contrib G)) : ctx G :=
  match l with [] => czero G | c :: l => cadd G (dense1 c) (dense l) end.

Record node (G : list shape) (t : shape) := {
  fwd : D -> ctx G -> tensor t;
  jvp : D -> ctx G -> ctx G -> tensor t;
  vjp : D -> ctx G -> tensor t -> list (contrib G) }.

(** Local adjointness: <jvp dx, delta> = <dx, vjp delta>. *)
Definition adjoint G t (nd : node G t) : Prop :=
  forall d x dx delta, dot t (jvp nd d x dx) delta = cdot G dx (dense (vjp nd d x delta)).

Inductive graph (Gam : list shape) : list shape -> Type :=
| gnil : graph Gam []
| gsnoc : forall ss t, graph Gam ss -> node (ss ++ Gam) t -> graph Gam (t :: ss).

Fixpoint eval Gam ss (g : graph Gam ss) (d : D) (x : ctx Gam) : ctx (ss ++ Gam) :=
  match g with
  | gnil _ => x
  | gsnoc g nd => let c := eval g d x in (fwd nd d c, c)
  end.
Fixpoint jvpCtx Gam ss (g : graph Gam ss) (d : D) (x dx : ctx Gam) : ctx (ss ++ Gam) :=
  match g with
  | gnil _ => dx
  | gsnoc g nd => let dc := jvpCtx g d x dx in (jvp nd d (eval g d x) dc, dc)
  end.

(** Backpropagation as a definition. [seed] holds a cotangent for every value; the newest is taken off, its
    contributions are added to the rest, and so on down to the leaves. *)
Fixpoint backprop Gam ss (g : graph Gam ss) (d : D) (x : ctx Gam) : ctx (ss ++ Gam) -> ctx Gam :=
  match g with
  | gnil _ => fun seed => seed
  | gsnoc g nd => fun seed => backprop g d x (cadd _ (snd seed) (dense (vjp nd d (eval g d x) (fst seed))))
  end.
(** The same, keeping the gradient of every value. *)
Fixpoint backpropAll Gam ss (g : graph Gam ss) (d : D) (x : ctx Gam) : ctx (ss ++ Gam) -> ctx (ss ++ Gam) :=
  match g with
  | gnil _ => fun seed => seed
  | gsnoc g nd => fun seed =>
      (fst seed, backpropAll g d x (cadd _ (snd seed) (dense (vjp nd d (eval g d x) (fst seed)))))
  end.

(** The same again with values computed once and every contribution added in place, in the order of the node's list.
    It needs an addition and nothing else: no zero, and no law. *)
Fixpoint acc G (l : list (contrib G)) (c : ctx G) : ctx G :=
  match l with [] => c | x :: l => acc l (cupd radd (fst (projT2 x)) (snd (projT2 x)) c) end.
Fixpoint backpropInPlace Gam ss (g : graph Gam ss) (d : D) : ctx (ss ++ Gam) -> ctx (ss ++ Gam) -> ctx (ss ++ Gam) :=
  match g with
  | gnil _ => fun _ seed => seed
  | gsnoc g nd => fun values seed =>
      (fst seed, backpropInPlace g d (snd values) (acc (vjp nd d (snd values) (fst seed)) (snd seed)))
  end.

Fixpoint all_adjoint Gam ss (g : graph Gam ss) : Prop :=
  match g with gnil _ => True | gsnoc g nd => all_adjoint g /\ adjoint nd end.
Fixpoint leaves Gam ss (g : graph Gam ss) : ctx (ss ++ Gam) -> ctx Gam :=
  match g with gnil _ => fun c => c | gsnoc g _ => fun c => leaves g (snd c) end.

Theorem backpropAll_leaves Gam ss (g : graph Gam ss) d x seed :
  leaves g (backpropAll g d x seed) = backprop g d x seed.
Proof. induction g; simpl; auto. Qed.

Hypothesis SR : semi_ring_theory r0 r1 radd rmul (@eq R).
Add Ring Rring : SR.

(** Reverse mode is the adjoint of forward mode. *)
Theorem backprop_adjoint Gam ss (g : graph Gam ss) :
  all_adjoint g -> forall d x dx seed,
  cdot _ (jvpCtx g d x dx) seed = cdot _ dx (backprop g d x seed).
Proof.
  induction g; simpl; auto.
  intros [Hg Hn] d x dx seed.
  rewrite <- (IHg Hg), (cdot_add_r SR), (Hn d (eval g d x)). apply (SRadd_comm SR).
Qed.

(** The same for a one-hot seed at one value, which is how a backward pass is started. *)
Corollary backprop_out Gam ss (g : graph Gam ss) (out : shape) (i : idx (ss ++ Gam) out) :
  all_adjoint g -> forall d x dx seed,
  dot out (cget R i (jvpCtx g d x dx)) seed = cdot _ dx (backprop g d x (csingle i seed)).
Proof. intros H d x dx seed. rewrite <- (backprop_adjoint _ H), (cdot_single SR); auto. Qed.

Lemma acc_dense G (l : list (contrib G)) c : acc l c = cadd G c (dense l).
Proof.
  revert c; induction l; simpl; intros.
  - now rewrite (cadd_zero_r SR).
  - rewrite IHl, (cupd_single SR). unfold dense1. now rewrite (cadd_assoc SR).
Qed.
Theorem backpropInPlace_correct Gam ss (g : graph Gam ss) d x seed :
  backpropInPlace g d (eval g d x) seed = backpropAll g d x seed.
Proof. revert seed; induction g; simpl; auto; intros. now rewrite acc_dense, IHg. Qed.
End Graph.
