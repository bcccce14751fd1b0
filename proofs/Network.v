(** A worked example for all sizes: a two-layer network with squared loss. Backpropagation computes its gradient. *)
Require Import Reals List NArith.
Import ListNotations.
From Coquelicot Require Import Coquelicot.
From Backproof Require Import Tensor Graph Adjoint Table Index Primitives Derivative RealFunctions NodeDerivatives PrimitivesReal.
Local Open Scope R_scope.
Open Scope list_scope.

Section Network.
(** m examples of n features, p hidden units, q outputs. *)
Variables m n p q : nat.
Notation matrix a b := (dim a (dim b scalar)).
Notation vector a := (dim a scalar).
(** Newest first; in order of creation: x, W1, b1, W2, y. *)
Definition inputs := [matrix m q; matrix p q; vector p; matrix n p; matrix m n].

Definition zero : list N := 0%N :: nil.
Definition one : list N := 1%N :: nil.
Definition both : list N := 0%N :: 1%N :: nil.

(** The value that was made k values ago. *)
Notation "'last'" := (IZ _ _).
Notation "'back' i" := (IS _ i) (at level 9, right associativity).

(** loss = sum ((tanh (x W1 + b1) W2 - y)^2) *)
Definition network : graph R unit inputs [scalar; matrix m q; matrix m q; matrix m q; matrix m p; matrix m p; matrix m p; matrix m p] :=
  gsnoc (gsnoc (gsnoc (gsnoc (gsnoc (gsnoc (gsnoc (gsnoc (gnil R unit inputs)
    (n_dot_general unit RSR (matrix m p) one zero [] [] (back back back back last) (back back back last)))
    (n_broadcast unit RSR (matrix m p) one (back back back last)))
    (n_add unit RSR (back last) last))
    (n_tanh Ropp unit RSR tanh last))
    (n_dot_general unit RSR (matrix m q) one zero [] [] last (back back back back back last)))
    (n_sub Ropp unit RSR last (back back back back back last)))
    (n_mul unit RSR last last))
    (n_sum unit RSR scalar both last).

Ltac conjuncts := repeat match goal with |- _ /\ _ => split | |- True => exact I end.
Ltac its_theorem :=
  match goal with
  | |- adjoint _ _ _ (n_dot_general _ _ _ _ _ _ _ _ _) => apply dot_general_adjoint
  | |- adjoint _ _ _ (n_broadcast _ _ _ _ _) => apply broadcast_adjoint
  | |- adjoint _ _ _ (n_add _ _ _ _) => apply add_adjoint
  | |- adjoint _ _ _ (n_tanh _ _ _ _ _) => apply tanh_adjoint
  | |- adjoint _ _ _ (n_sub _ _ _ _ _) => apply sub_adjoint
  | |- adjoint _ _ _ (n_mul _ _ _ _) => apply mul_adjoint
  | |- adjoint _ _ _ (n_sum _ _ _ _ _) => apply sum_adjoint
  | |- node_der (n_dot_general _ _ _ _ _ _ _ _ _) _ _ => apply dot_general_derivative
  | |- node_der (n_broadcast _ _ _ _ _) _ _ => apply broadcast_derivative
  | |- node_der (n_add _ _ _ _) _ _ => apply add_derivative
  | |- node_der (n_tanh _ _ _ _ _) _ _ => apply tanh_derivative
  | |- node_der (n_sub _ _ _ _ _) _ _ => apply sub_derivative
  | |- node_der (n_mul _ _ _ _) _ _ => apply mul_derivative
  | |- node_der (n_sum _ _ _ _ _) _ _ => apply sum_derivative
  end.
Lemma every_rule_is_adjoint : all_adjoint 0 Rplus Rmult network.
Proof. cbn [all_adjoint network]. conjuncts; its_theorem. Qed.
Lemma every_jvp_is_a_derivative x : graph_der network tt x.
Proof. cbn [graph_der network]. conjuncts; its_theorem. Qed.

Theorem network_gradient x dx :
  is_derive (fun u => cget R (IZ _ scalar) (eval network tt (cline inputs x dx u))) 0
    (cdot 0 Rplus Rmult inputs dx (backprop 0 Rplus network tt x (csingle 0 (IZ _ scalar) (1 : tensor R scalar)))).
Proof. exact (backprop_is_gradient network (IZ _ scalar) tt x dx every_rule_is_adjoint (every_jvp_is_a_derivative x)). Qed.
End Network.
