(** Shapes, tensors and contexts: the data that a graph computes with.

    A tensor is nested vectors of exactly its shape. A context is one tensor for each value of a graph, the newest first,
    so that appending a node is a cons and nothing is ever cast. *)
Require Import List Arith Lia Ring.
Import ListNotations.
Set Implicit Arguments.

(** * Shapes and tensors over any carrier *)
Inductive shape : Set := scalar | dim (n : nat) (s : shape).

Definition shape_dec : forall a b : shape, {a = b} + {a <> b}.
Proof. decide equality; apply Nat.eq_dec. Defined.

Fixpoint size (s : shape) : nat :=
  match s with scalar => 1 | dim n s => n * size s end.

Fixpoint vec (A : Type) (n : nat) : Type :=
  match n with O => unit | S n => (A * vec A n)%type end.
Fixpoint vmap A B (f : A -> B) n : vec A n -> vec B n :=
  match n with O => fun _ => tt | S n => fun a => (f (fst a), vmap f n (snd a)) end.
Fixpoint vzip A B C (f : A -> B -> C) n : vec A n -> vec B n -> vec C n :=
  match n with O => fun _ _ => tt | S n => fun a b => (f (fst a) (fst b), vzip f n (snd a) (snd b)) end.
Fixpoint vfill A (a : A) n : vec A n :=
  match n with O => tt | S n => (a, vfill a n) end.

Fixpoint tensor (A : Type) (s : shape) : Type :=
  match s with scalar => A | dim n s => vec (tensor A s) n end.
Fixpoint tmap A B (f : A -> B) (s : shape) : tensor A s -> tensor B s :=
  match s with scalar => f | dim n s => vmap (tmap f s) n end.
Fixpoint tzip A B C (f : A -> B -> C) (s : shape) : tensor A s -> tensor B s -> tensor C s :=
  match s with scalar => f | dim n s => vzip (tzip f s) n end.
Fixpoint tfill A (a : A) (s : shape) : tensor A s :=
  match s with scalar => a | dim n s => vfill (tfill a s) n end.

(** Induction over a tensor: first its shape, then the length of its outermost axis. *)
Ltac tensor_induction s :=
  induction s as [|n s IHs]; simpl;
  [ intros; try ring | induction n as [|n IHn]; simpl; intros; try ring; try reflexivity ].

(** Where in a context a value lies. Its number counts the older values, so it stays when newer ones are added. *)
Inductive idx : list shape -> shape -> Type :=
| IZ : forall G s, idx (s :: G) s
| IS : forall G s t, idx G s -> idx (t :: G) s.
Fixpoint idn G s (i : idx G s) : nat :=
  match i with @IZ G _ => length G | @IS _ _ _ j => idn j end.
Lemma idn_lt G s (i : idx G s) : idn i < length G.
Proof. induction i; simpl; lia. Qed.

Fixpoint ctx (A : Type) (G : list shape) : Type :=
  match G with [] => unit | s :: G => (tensor A s * ctx A G)%type end.
Fixpoint cget A G s (i : idx G s) : ctx A G -> tensor A s :=
  match i with @IZ _ _ => fun c => fst c | @IS _ _ _ j => fun c => cget A j (snd c) end.

(** * Algebra, over any commutative semiring *)
Section Algebra.
Variable R : Type.
Variables (r0 r1 : R) (radd rmul : R -> R -> R).
Infix "+" := radd.
Infix "*" := rmul.
Notation "0" := r0.
Notation tensor := (tensor R).
Notation ctx := (ctx R).

Definition tzero (s : shape) : tensor s := tfill 0 s.
Definition tadd (s : shape) : tensor s -> tensor s -> tensor s := tzip radd s.
Definition tmul (s : shape) : tensor s -> tensor s -> tensor s := tzip rmul s.
Fixpoint vdot A (f : A -> A -> R) n : vec A n -> vec A n -> R :=
  match n with O => fun _ _ => 0 | S n => fun a b => f (fst a) (fst b) + vdot f n (snd a) (snd b) end.
Fixpoint dot (s : shape) : tensor s -> tensor s -> R :=
  match s with scalar => rmul | dim n s => vdot (dot s) n end.

Fixpoint czero G : ctx G :=
  match G with [] => tt | s :: G => (tzero s, czero G) end.
Fixpoint cadd G : ctx G -> ctx G -> ctx G :=
  match G with [] => fun _ _ => tt | s :: G => fun a b => (tadd s (fst a) (fst b), cadd G (snd a) (snd b)) end.
Fixpoint cdot G : ctx G -> ctx G -> R :=
  match G with [] => fun _ _ => 0 | s :: G => fun a b => dot s (fst a) (fst b) + cdot G (snd a) (snd b) end.
(** The context that is v at i and zero elsewhere: a one-hot seed. *)
Fixpoint csingle G s (i : idx G s) : tensor s -> ctx G :=
  match i in idx G s return tensor s -> ctx G with
  | @IZ G s => fun v => (v, czero G)
  | @IS G s t j => fun v => (tzero t, csingle j v)
  end.
(** Add v to the entry at i, in place. *)
Fixpoint cupd G s (i : idx G s) : tensor s -> ctx G -> ctx G :=
  match i in idx G s return tensor s -> ctx G -> ctx G with
  | @IZ G s => fun v c => (tadd s (fst c) v, snd c)
  | @IS G s t j => fun v c => (fst c, cupd j v (snd c))
  end.

Hypothesis SR : semi_ring_theory r0 r1 radd rmul (@eq R).
Add Ring Rring : SR.

Ltac tind s := unfold tadd, tmul, tzero in *; tensor_induction s.

Lemma tadd_zero_r s (a : tensor s) : tadd s a (tzero s) = a.
Proof. revert a. tind s; destruct a; simpl; [reflexivity|]. now rewrite IHs, IHn. Qed.
Lemma tadd_zero_l s (a : tensor s) : tadd s (tzero s) a = a.
Proof. revert a. tind s; destruct a; simpl; [reflexivity|]. now rewrite IHs, IHn. Qed.
Lemma tadd_comm s (a b : tensor s) : tadd s a b = tadd s b a.
Proof. revert a b. tind s. now rewrite IHs, IHn. Qed.
Lemma tadd_assoc s (a b c : tensor s) : tadd s a (tadd s b c) = tadd s (tadd s a b) c.
Proof. revert a b c. tind s. now rewrite IHs, IHn. Qed.
Lemma dot_zero_r s (a : tensor s) : dot s a (tzero s) = 0.
Proof. revert a. tind s. rewrite IHs, IHn; ring. Qed.
Lemma dot_comm s (a b : tensor s) : dot s a b = dot s b a.
Proof. revert a b. tind s. now rewrite IHs, IHn. Qed.
Lemma dot_zero_l s (a : tensor s) : dot s (tzero s) a = 0.
Proof. now rewrite dot_comm, dot_zero_r. Qed.
Lemma dot_add_r s (a b c : tensor s) : dot s a (tadd s b c) = dot s a b + dot s a c.
Proof. revert a b c. tind s. rewrite IHs, IHn; ring. Qed.
Lemma dot_add_l s (a b c : tensor s) : dot s (tadd s a b) c = dot s a c + dot s b c.
Proof. rewrite (dot_comm s (tadd s a b)), dot_add_r, (dot_comm s c a), (dot_comm s c b); ring. Qed.
Lemma dot_mul s (c v d : tensor s) : dot s (tmul s c v) d = dot s v (tmul s c d).
Proof. revert c v d. tind s. now rewrite IHs, IHn. Qed.

Lemma cadd_zero_r G (a : ctx G) : cadd G a (czero G) = a.
Proof. induction G; simpl; destruct a; auto; simpl. now rewrite tadd_zero_r, IHG. Qed.
Lemma cadd_assoc G (a b c : ctx G) : cadd G a (cadd G b c) = cadd G (cadd G a b) c.
Proof. induction G; simpl; auto. now rewrite tadd_assoc, IHG. Qed.
Lemma cdot_zero_r G (a : ctx G) : cdot G a (czero G) = 0.
Proof. induction G; simpl; auto. rewrite dot_zero_r, IHG; ring. Qed.
Lemma cdot_add_r G (a b c : ctx G) : cdot G a (cadd G b c) = cdot G a b + cdot G a c.
Proof. induction G; simpl. ring. rewrite dot_add_r, IHG; ring. Qed.
Lemma cdot_single G s (i : idx G s) (dx : ctx G) v : cdot G dx (csingle i v) = dot s (cget R i dx) v.
Proof.
  induction i; simpl.
  - rewrite cdot_zero_r; ring.
  - rewrite dot_zero_r, IHi; ring.
Qed.
Lemma cupd_single G s (i : idx G s) v (c : ctx G) : cupd i v c = cadd G c (csingle i v).
Proof. induction i; simpl. now rewrite cadd_zero_r. now rewrite tadd_zero_r, IHi. Qed.
End Algebra.
