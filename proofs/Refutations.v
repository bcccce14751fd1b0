(** Two mistakes that are easy to make and that local adjointness refuses. Each is a node whose vjp is right. *)
Require Import List ZArith Ring.
Import ListNotations.
From Backproof Require Import Tensor Graph.
Open Scope Z_scope.

Definition pair := dim 2 scalar.
Notation adjoint_Z := (adjoint 0 Z.add Z.mul).

(** log-softmax has jvp v - <p, v> and vjp d - p * sum d; this node uses the vjp's formula for both, with p = (1, 2). *)
Definition project (v : tensor Z pair) : tensor Z pair :=
  let total := fst v + fst (snd v) in (fst v - 1 * total, (fst (snd v) - 2 * total, tt)).
Definition log_softmax_with_vjp_as_jvp : node Z unit [pair] pair :=
  {| fwd := fun _ (c : ctx Z [pair]) => fst c;
     jvp := fun _ _ (dc : ctx Z [pair]) => project (fst dc);
     vjp := fun _ _ delta => [mkc Z (IZ _ _) (project delta)] |}.
Theorem log_softmax_vjp_is_not_its_jvp : ~ adjoint_Z log_softmax_with_vjp_as_jvp.
Proof.
  intros H. specialize (H tt ((0, (0, tt)), tt) ((1, (0, tt)), tt) (0, (1, tt))).
  vm_compute in H. discriminate.
Qed.

(** A gather of element 0 whose vjp scatters, and whose jvp is nothing. *)
Definition gather_with_zero_jvp : node Z unit [pair] scalar :=
  {| fwd := fun _ (c : ctx Z [pair]) => (fst (fst c) : tensor Z scalar);
     jvp := fun _ _ _ => (0 : tensor Z scalar);
     vjp := fun _ _ delta => [mkc Z (IZ _ _) ((delta, (0, tt)) : tensor Z pair)] |}.
Theorem gather_jvp_is_not_zero : ~ adjoint_Z gather_with_zero_jvp.
Proof.
  intros H. specialize (H tt ((0, (0, tt)), tt) ((1, (0, tt)), tt) 1).
  vm_compute in H. discriminate.
Qed.
