(** Linear maps given by a table of flat indices.

    An entry (i, c, k) says y_k += c * x_i. The coefficients, and the indices too, may come from anywhere: constants for
    a rearrangement, the other operand for a product, the point for a maximum, the environment for a gather. Tables are run
    on search trees, so that one entry costs a logarithm; the lemmas say what they compute. *)
Require Import List Arith Lia Ring PArith NArith Pnat FMapPositive.
Import ListNotations.
From Backproof Require Import Tensor Graph Adjoint.
Set Implicit Arguments.

(** 0, 1, ..., n-1, counted from o. *)
Fixpoint count (o : N) (n : nat) : list N :=
  match n with O => [] | S n => o :: count (N.succ o) n end.

Section Table.
Variable R : Type.
Variables (r0 r1 : R) (radd rmul : R -> R -> R).
Variable D : Type.
Infix "+" := radd.
Infix "*" := rmul.
Notation "0" := r0.
Notation tensor := (tensor R).
Notation dot := (dot r0 radd rmul).
Notation adjoint := (adjoint r0 radd rmul).

(** * Row-major order *)
Fixpoint velems A (f : A -> list R -> list R) n : vec A n -> list R -> list R :=
  match n with O => fun _ l => l | S n => fun v l => f (fst v) (velems f n (snd v) l) end.
Fixpoint elems (s : shape) : tensor s -> list R -> list R :=
  match s with scalar => fun a l => a :: l | dim n s => velems (elems s) n end.
Fixpoint vfill_from A (f : list R -> A * list R) n (l : list R) : vec A n * list R :=
  match n with
  | O => (tt, l)
  | S n => let '(a, l) := f l in let '(b, l) := vfill_from f n l in ((a, b), l)
  end.
(** A tensor from a list; zeros where the list ends early. Also what is left of the list. *)
Fixpoint fill (s : shape) (l : list R) : tensor s * list R :=
  match s with
  | scalar => match l with [] => (0, []) | a :: l => (a, l) end
  | dim n s => vfill_from (fill s) n l
  end.
Definition of_list s l : tensor s := fst (fill s l).
Definition to_list s (v : tensor s) : list R := elems s v [].
Definition flat s (v : tensor s) (i : N) : R := nth (N.to_nat i) (to_list s v) 0.

(** * Arrays *)
Definition array := PositiveMap.t R.
Definition read (m : array) (i : N) : R :=
  match PositiveMap.find (N.succ_pos i) m with Some v => v | None => 0 end.
Definition bump (m : array) (k : N) (v : R) : array := PositiveMap.add (N.succ_pos k) (read m k + v) m.
Fixpoint load (l : list R) (p : positive) (m : array) : array :=
  match l with [] => m | a :: l => load l (Pos.succ p) (PositiveMap.add p a m) end.
Definition array_of s (v : tensor s) : array := load (to_list s v) 1 (PositiveMap.empty R).
Definition store s (f : N -> R) : tensor s := of_list s (map f (count 0%N (size s))).

(** * Tables *)
Definition entry := (N * R * N)%type.
Definition table := list entry.
Definition run (T : table) (x m : array) : array :=
  fold_left (fun m e => let '(i, c, k) := e in bump m k (c * read x i)) T m.
Definition apply s t (T : table) (v : tensor s) : tensor t :=
  let x := array_of s v in let y := run T x (PositiveMap.empty R) in store t (read y).
Definition flip (T : table) : table := map (fun e => let '(i, c, k) := e in (k, c, i)) T.

(** What a table means: the k-th result, and the bilinear form that it and its transpose share. *)
Fixpoint pick (T : table) (x : N -> R) (k : N) : R :=
  match T with [] => 0 | (i, c, k') :: T => (if (k =? k')%N then c * x i else 0) + pick T x k end.
Fixpoint form (T : table) (x d : N -> R) : R :=
  match T with [] => 0 | (i, c, k) :: T => c * x i * d k + form T x d end.

(** * What the arrays hold *)
Lemma load_below l p m q : (q < p)%positive -> PositiveMap.find q (load l p m) = PositiveMap.find q m.
Proof.
  revert p m; induction l as [|a l IH]; simpl; intros; auto.
  rewrite IH by lia. apply PositiveMap.gso. lia.
Qed.
Lemma load_from l p m q : (p <= q)%positive -> (forall q, (p <= q)%positive -> PositiveMap.find q m = None) ->
  match PositiveMap.find q (load l p m) with Some v => v | None => 0 end = nth (Pos.to_nat q - Pos.to_nat p) l 0.
Proof.
  revert p m; induction l as [|a l IH]; simpl; intros p m H Hm.
  - rewrite Hm by assumption. now destruct (Pos.to_nat q - Pos.to_nat p).
  - destruct (Pos.eq_dec p q) as [->|N].
    + rewrite load_below, PositiveMap.gss by lia. now rewrite Nat.sub_diag.
    + rewrite IH; [|lia|].
      * rewrite Pos2Nat.inj_succ.
        replace (Pos.to_nat q - Pos.to_nat p) with (S (Pos.to_nat q - S (Pos.to_nat p))) by lia. reflexivity.
      * intros r Hr. rewrite PositiveMap.gso by lia. apply Hm; lia.
Qed.
Lemma read_array_of s (v : tensor s) i : read (array_of s v) i = flat s v i.
Proof.
  unfold read, array_of, flat. rewrite load_from.
  - f_equal. destruct i; simpl; lia.
  - lia.
  - intros. apply PositiveMap.gempty.
Qed.

Hypothesis SR : semi_ring_theory r0 r1 radd rmul (@eq R).
Add Ring Rring : SR.

Lemma read_bump m k v j : read (bump m k v) j = read m j + (if (j =? k)%N then v else 0).
Proof.
  unfold bump. unfold read at 1. destruct (N.eqb_spec j k) as [->|N].
  - now rewrite PositiveMap.gss.
  - rewrite PositiveMap.gso; [fold (read m j); ring|].
    intros E. apply N. rewrite <- (N.pos_pred_succ j), <- (N.pos_pred_succ k). now rewrite E.
Qed.
Lemma read_run T x m k : read (run T x m) k = read m k + pick T (read x) k.
Proof.
  revert m; induction T as [|[[i c] k'] T IH]; intros m; [simpl; ring|].
  change (read (run T x (bump m k' (c * read x i))) k = read m k + pick ((i, c, k') :: T) (read x) k).
  rewrite IH, read_bump. simpl. ring.
Qed.
Lemma read_empty k : read (PositiveMap.empty R) k = 0.
Proof. unfold read. now rewrite PositiveMap.gempty. Qed.
Lemma pick_ext T x x' k : (forall i, x i = x' i) -> pick T x k = pick T x' k.
Proof. intros H; induction T as [|[[i c] k'] T IH]; simpl; auto. now rewrite IH, H. Qed.

(** * Inner products in row-major order *)
Fixpoint ldot (a b : list R) : R :=
  match a, b with a :: l, b :: m => a * b + ldot l m | _, _ => 0 end.
Lemma ldot_nil_r l : ldot l [] = 0.
Proof. now destruct l. Qed.
Lemma dot_fill s l d rest : dot s (fst (fill s l)) d + ldot (snd (fill s l)) rest = ldot l (elems s d rest).
Proof.
  revert l d rest; induction s as [|n s IHs]; simpl.
  - intros [|a l] d rest; simpl; ring.
  - induction n as [|n IHn]; simpl; intros l d rest; [ring|].
    rewrite <- IHs. specialize (IHn (snd (fill s l)) (snd d) rest).
    destruct (fill s l) as [a l1]; simpl in *.
    destruct (vfill_from (fill s) n l1) as [b l2]; simpl in *.
    transitivity (dot s a (fst d) + (vdot 0 radd (dot s) n b (snd d) + ldot l2 rest)); [symmetry; apply (SRadd_assoc SR)|].
    exact (f_equal (fun r => dot s a (fst d) + r) IHn).
Qed.
Lemma dot_of_list s l d : dot s (of_list s l) d = ldot l (to_list s d).
Proof. unfold of_list, to_list. rewrite <- dot_fill, ldot_nil_r; ring. Qed.
Lemma len_elems s (v : tensor s) l : length (elems s v l) = (size s + length l)%nat.
Proof.
  revert v l; induction s as [|n s IHs]; simpl; auto.
  induction n as [|n IHn]; simpl; intros; auto. rewrite IHs, IHn; lia.
Qed.
Lemma len_to_list s (v : tensor s) : length (to_list s v) = size s.
Proof. unfold to_list. rewrite len_elems; simpl; lia. Qed.

Lemma ldot_add (f g : N -> R) l e : ldot (map (fun k => f k + g k) l) e = ldot (map f l) e + ldot (map g l) e.
Proof. revert e; induction l; destruct e; simpl; try ring. rewrite IHl; ring. Qed.
Lemma ldot_ext (f g : N -> R) l e : (forall k, f k = g k) -> ldot (map f l) e = ldot (map g l) e.
Proof. intros H. f_equal. now apply map_ext. Qed.
Lemma ldot_zero l e : ldot (map (fun _ : N => 0) l) e = 0.
Proof. revert e; induction l; destruct e; simpl; try ring. rewrite IHl; ring. Qed.
Lemma ldot_delta e o k v :
  ldot (map (fun j => if (j =? k)%N then v else 0) (count o (length e))) e
  = if (k <? o)%N then 0 else v * nth (N.to_nat (k - o)) e 0.
Proof.
  revert o; induction e as [|a e IH]; simpl; intros.
  - destruct (k <? o)%N; [reflexivity|]. destruct (N.to_nat (k - o)); ring.
  - rewrite IH. destruct (N.eqb_spec o k) as [->|N].
    + rewrite N.ltb_irrefl, N.sub_diag. replace (k <? N.succ k)%N with true by (symmetry; apply N.ltb_lt; lia).
      simpl; ring.
    + destruct (N.ltb_spec k (N.succ o)), (N.ltb_spec k o); try lia; [ring|].
      replace (N.to_nat (k - o)) with (S (N.to_nat (k - N.succ o))) by lia. ring.
Qed.
Lemma dot_store s f d : dot s (store s f) d = ldot (map f (count 0%N (size s))) (to_list s d).
Proof. apply dot_of_list. Qed.
Lemma dot_pick s T x d : dot s (store s (pick T x)) d = form T x (flat s d).
Proof.
  rewrite dot_store. induction T as [|[[i c] k0] T IH]; simpl.
  - apply ldot_zero.
  - rewrite ldot_add. rewrite <- (len_to_list s d) at 1. rewrite ldot_delta.
    destruct (N.ltb_spec k0 0); [lia|]. rewrite N.sub_0_r. f_equal. exact IH.
Qed.

Lemma apply_pick s t T (v : tensor s) : apply s t T v = store t (pick T (flat s v)).
Proof.
  unfold apply, store. f_equal. apply map_ext; intros k.
  rewrite read_run, read_empty, (pick_ext T (read (array_of s v)) (flat s v)) by apply read_array_of. ring.
Qed.
Lemma form_flip T x d : form (flip T) d x = form T x d.
Proof. induction T as [|[[i c] k] T IH]; simpl; auto. rewrite IH; ring. Qed.

(** The lemma behind every structural, bilinear and selecting primitive: a table's transpose is the table with its two
    columns of indices exchanged. *)
Theorem apply_transposed s t T v delta : dot t (apply s t T v) delta = dot s v (apply t s (flip T) delta).
Proof. now rewrite (dot_comm SR s), !apply_pick, !dot_pick, form_flip. Qed.

Definition by_table s t (T : table) : linmap r0 radd rmul s t :=
  {| push := apply s t T; pull := apply t s (flip T); transposed := apply_transposed s t T |}.

(** * Nodes *)
Notation ctx := (ctx R).
Notation node := (node R D).

(** One argument of a linear node: the earlier value, and its table, which may look at the environment and the point. *)
Definition source G := {s : shape & (idx G s * (D -> ctx G -> table))%type}.
Definition mksource G s (a : idx G s) (T : D -> ctx G -> table) : source G := existT _ s (a, T).
Definition source_part G t (p : source G) : part r0 radd rmul D G t :=
  mkpart (fst (projT2 p)) (fun d x => by_table _ t (snd (projT2 p) d x)).
Definition total t (l : list (tensor t)) : tensor t := fold_right (tadd radd t) (tzero r0 t) l.

(** y = the sum of the tables' images: linear where the tables do not look at the point. *)
Definition n_linear G t (sources : list (source G)) : node G t :=
  local (fun d x => total t (map (fun p => apply _ t (snd (projT2 p) d x) (cget R (fst (projT2 p)) x)) sources))
        (map (@source_part G t) sources).
(** Any forward function at all, with any tables for its Jacobians. *)
Definition n_tabled G t (F : D -> ctx G -> tensor t) (sources : list (source G)) : node G t :=
  local F (map (@source_part G t) sources).

(** Products: an entry (i, j, k) says y_k += a_i * b_j. *)
Definition triples := list (N * N * N).
Definition left_table (T : triples) (b : array) : table := map (fun e => let '(i, j, k) := e in (i, read b j, k)) T.
Definition right_table (T : triples) (a : array) : table := map (fun e => let '(i, j, k) := e in (j, read a i, k)) T.
Definition n_bilinear G sa sb t (T : triples) (a : idx G sa) (b : idx G sb) : node G t :=
  local (fun _ x => apply sa t (left_table T (array_of sb (cget R b x))) (cget R a x))
        [ mkpart a (fun _ x => by_table sa t (left_table T (array_of sb (cget R b x))));
          mkpart b (fun _ x => by_table sb t (right_table T (array_of sa (cget R a x)))) ].

Corollary linear_adjoint G t (sources : list (source G)) : adjoint (n_linear t sources).
Proof. apply (local_adjoint SR). Qed.
Corollary tabled_adjoint G t F (sources : list (source G)) : adjoint (@n_tabled G t F sources).
Proof. apply (local_adjoint SR). Qed.
Corollary bilinear_adjoint G sa sb t T (a : idx G sa) (b : idx G sb) : adjoint (n_bilinear t T a b).
Proof. apply (local_adjoint SR). Qed.
End Table.
