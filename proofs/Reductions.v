(** The reductions that are not linear, over the reals: logsumexp, products, and extremes away from ties. *)
Require Import Reals List Lra Lia Ring NArith.
Import ListNotations.
From Coquelicot Require Import Coquelicot.
From Backproof Require Import Tensor Graph Adjoint Table Index Primitives Derivative RealFunctions NodeDerivatives.
Set Implicit Arguments.
Local Open Scope R_scope.

Notation pick := (pick 0 Rplus Rmult).

(** * A tensor that was stored is read back *)
Lemma elems_fill s (l rest : list R) : (size s <= length l)%nat ->
  elems s (fst (fill 0 s l)) rest = firstn (size s) l ++ rest.
Proof.
  revert l rest; induction s as [|n s IHs]; [intros [|a l] rest H; simpl in *; [lia|reflexivity]|].
  induction n; intros l rest H; [reflexivity|]. simpl in *.
  pose proof (snd_fill s l) as E. pose proof (fun r => IHs l r) as F.
  destruct (fill 0 s l) as [a l1]. simpl in E, F. subst l1.
  pose proof (fun r => IHn (skipn (size s) l) r) as F2.
  destruct (vfill_from (fill 0 s) n (skipn (size s) l)) as [b l2]. simpl in *.
  rewrite F by lia. rewrite F2 by (rewrite skipn_length; lia). rewrite app_assoc. f_equal.
  clear. revert l. generalize (n * size s)%nat as m. generalize (size s) as k.
  induction k; intros m l; [reflexivity|]. destruct l; simpl; [now rewrite firstn_nil|]. now rewrite IHk.
Qed.
Lemma len_count o n : length (count o n) = n.
Proof. revert o; induction n; intros; simpl; auto. Qed.
Lemma nth_count (f : N -> R) n o k : (k < n)%nat -> nth k (map f (count o n)) 0 = f (o + N.of_nat k)%N.
Proof.
  revert o k; induction n; intros o k H; [lia|]. destruct k; simpl.
  - f_equal. lia.
  - rewrite IHn by lia. f_equal. lia.
Qed.
Lemma in_count k o n : In k (count o n) -> (N.to_nat (k - o) < n)%nat /\ (o <= k)%N.
Proof.
  revert o; induction n; simpl; intros o H; [contradiction|].
  destruct H as [->|H]; [lia|]. apply IHn in H. lia.
Qed.
Lemma flat_store s (f : N -> R) k : In k (count 0%N (size s)) -> flat 0 s (store 0 s f) k = f k.
Proof.
  intros H. apply in_count in H. unfold flat, to_list, store, of_list.
  rewrite elems_fill by (rewrite map_length, len_count; lia).
  rewrite app_nil_r, firstn_all2 by (rewrite map_length, len_count; lia).
  rewrite nth_count by lia. f_equal. lia.
Qed.
Lemma store_ext s (f g : N -> R) : (forall k, In k (count 0%N (size s)) -> f k = g k) -> store 0 s f = store 0 s g.
Proof. intros H. unfold store. f_equal. now apply map_ext_in. Qed.

Section Reductions.
Variable D : Type.
Variables (G : list shape) (s t : shape).
Variables (d : D) (x : ctx R G).
Variable axes : list N.
Variable a : idx G s.
Notation sums := (sum_table (dims_of s) axes).
Notation node_der n := (@node_der D G _ n d x).
Notation here := (flat 0 s (cget R a x)).

(** Every result has an input: no axis that is summed over is empty. *)
Definition inhabited (T : triples) (t : shape) : Prop := forall k, In k (count 0%N (size t)) -> exists i j, In (i, j, k) T.
(** No input is counted twice for one result. *)
Definition pairs (T : triples) : list (N * N) := map (fun e => let '(i, _, k) := e in (i, k)) T.

(** * logsumexp *)
Definition logsumexp (v : tensor R s) : tensor R t :=
  store 0 t (fun k => ln (pick (plain 1 sums) (fun i => exp (flat 0 s v i)) k)).

Lemma pick_plain_cons i j k' (T : triples) y k :
  pick (plain 1 ((i, j, k') :: T)) y k = (if (k =? k')%N then y i else 0) + pick (plain 1 T) y k.
Proof. simpl. fold (plain 1 T). destruct (k =? k')%N; ring. Qed.
Lemma pick_weighed_cons i j k' (T : triples) w y k :
  pick (weighed ((i, j, k') :: T) w) y k = (if (k =? k')%N then w i k' * y i else 0) + pick (weighed T w) y k.
Proof. reflexivity. Qed.
Lemma pick_positive (T : triples) y k : (forall i, 0 < y i) -> (exists i j, In (i, j, k) T) -> 0 < pick (plain 1 T) y k.
Proof.
  intros Hy. assert (P : forall T' : triples, 0 <= pick (plain 1 T') y k).
  { induction T' as [|[[i j] k'] T' IH]; [simpl; lra|]. rewrite pick_plain_cons. specialize (Hy i). destruct (k =? k')%N; lra. }
  induction T as [|[[i j] k'] T IH]; intros [i' [j' H]]; [destruct H|]. rewrite pick_plain_cons.
  specialize (P T). destruct H as [H|H].
  - injection H as -> -> ->. rewrite N.eqb_refl. specialize (Hy i'). lra.
  - assert (0 < pick (plain 1 T) y k) by (apply IH; eauto). specialize (Hy i). destruct (k =? k')%N; lra.
Qed.
Lemma pick_factor (T : triples) (w : N -> N -> R) (e z : N -> R) k c :
  (forall i, w i k = c * e i) -> pick (weighed T w) z k = c * pick (plain 1 T) (fun i => e i * z i) k.
Proof.
  intros H. induction T as [|[[i j] k'] T IH]; [simpl; ring|]. rewrite pick_plain_cons, pick_weighed_cons, IH.
  destruct (N.eqb_spec k k') as [->|]; [rewrite H|]; ring.
Qed.
Theorem logsumexp_derivative : inhabited sums t -> node_der (n_logsumexp Ropp D RSR t exp logsumexp axes a).
Proof.
  intros HT X t0 dX HX H.
  set (w := fun i k => exp (here i + - flat 0 t (logsumexp (cget R a x)) k)).
  change (tder t (fun u => logsumexp (cget R a (X u))) t0
    (tadd Rplus t (apply 0 Rplus Rmult s t (weighed sums w) (cget R a dX)) (tzero 0 t))).
  rewrite (tadd_zero_r RSR), (apply_pick RSR). apply store_der. intros k Hk.
  set (S := pick (plain 1 sums) (fun i => exp (here i)) k).
  assert (P : 0 < S) by (apply pick_positive; [intros; apply exp_pos|now apply HT]).
  assert (W : forall i, w i k = / S * exp (here i)).
  { intros i. unfold w, logsumexp. rewrite flat_store by exact Hk. fold S.
    rewrite exp_plus, exp_Ropp, exp_ln by exact P. ring. }
  rewrite (pick_factor sums w (fun i => exp (here i)) _ k W).
  assert (F : forall i, is_derive (fun u => flat 0 s (cget R a (X u)) i) t0 (flat 0 s (cget R a dX) i)).
  { intros i. apply flat_der. now apply cder_get. }
  apply (d_comp ln (fun u => pick (plain 1 sums) (fun i => exp (flat 0 s (cget R a (X u)) i)) k)).
  - rewrite HX. apply log_slope. exact P.
  - apply (pick_der (plain 1 sums) (fun u i => exp (flat 0 s (cget R a (X u)) i))). intros i.
    apply (d_comp exp (fun u => flat 0 s (cget R a (X u)) i)); [|apply F]. rewrite HX. apply exp_slope.
Qed.

(** * Products *)
Fixpoint product_of (T : triples) (y : N -> R) (k : N) : R :=
  match T with [] => 1 | (i, _, k') :: T => (if (k =? k')%N then y i else 1) * product_of T y k end.
Fixpoint others (T : triples) (y : N -> R) (i k : N) : R :=
  match T with
  | [] => 1
  | (i', _, k') :: T => (if ((k =? k') && negb (i =? i'))%bool%N then y i' else 1) * others T y i k
  end.
Definition prod (v : tensor R s) : tensor R t := store 0 t (product_of sums (flat 0 s v)).

Lemma others_absent T y i k : ~ In (i, k) (pairs T) -> others T y i k = product_of T y k.
Proof.
  induction T as [|[[i' j] k'] T IH]; simpl; intros H; [reflexivity|].
  rewrite IH by tauto. destruct (N.eqb_spec k k') as [->|]; simpl; [|reflexivity].
  destruct (N.eqb_spec i i') as [->|]; simpl; [tauto|reflexivity].
Qed.
Lemma pick_others_cons i0 j0 k0 T T' y z k :
  (forall i k, In (i, k) (pairs T') -> In (i, k) (pairs T)) -> ~ In (i0, k0) (pairs T) ->
  pick (weighed T' (others ((i0, j0, k0) :: T) y)) z k
  = (if (k =? k0)%N then y i0 else 1) * pick (weighed T' (others T y)) z k.
Proof.
  intros Hin H0. induction T' as [|[[i j] k'] T' IH]; [simpl; ring|].
  assert (IH' := IH (fun i k H => Hin i k (or_intror H))). clear IH.
  rewrite !pick_weighed_cons, IH'. cbn [others].
  destruct (N.eqb_spec k k') as [->|Nk]; [|destruct (k =? k0)%N; ring].
  destruct (N.eqb_spec k' k0) as [->|]; simpl; [|ring].
  destruct (N.eqb_spec i i0) as [->|]; simpl; [|ring].
  exfalso. apply H0, Hin. now left.
Qed.
Lemma product_der T (y : R -> N -> R) (t0 : R) (dy : N -> R) k : NoDup (pairs T) -> (forall i, is_derive (fun u => y u i) t0 (dy i)) ->
  is_derive (fun u => product_of T (y u) k) t0 (pick (weighed T (others T (y t0))) dy k).
Proof.
  intros HN Hy. induction T as [|[[i j] k'] T IH]; [exact (d_const 1 t0)|].
  inversion HN as [|p l Hnot HN']; subst. specialize (IH HN').
  rewrite pick_weighed_cons. cbn [product_of].
  assert (E : pick (weighed T (others ((i, j, k') :: T) (y t0))) dy k
    = (if (k =? k')%N then y t0 i else 1) * pick (weighed T (others T (y t0))) dy k).
  { now apply pick_others_cons. }
  rewrite E. clear E.
  assert (O : others ((i, j, k') :: T) (y t0) i k' = product_of T (y t0) k').
  { cbn [others]. rewrite !N.eqb_refl, others_absent by exact Hnot. simpl. ring. }
  rewrite O. destruct (N.eqb_spec k k') as [->|Nk].
  - apply (d_eq (a := dy i * product_of T (y t0) k' + y t0 i * pick (weighed T (others T (y t0))) dy k')); [ring|].
    exact (d_mult (fun u => y u i) (fun u => product_of T (y u) k') t0 _ _ (Hy i) IH).
  - apply (d_eq (a := 0 * product_of T (y t0) k + 1 * pick (weighed T (others T (y t0))) dy k)); [ring|].
    exact (d_mult (fun _ => 1) (fun u => product_of T (y u) k) t0 _ _ (d_const 1 t0) IH).
Qed.
Theorem prod_derivative : NoDup (pairs sums) ->
  node_der (n_prod RSR t (fun _ c => prod (cget R a c)) (fun _ c => others sums (flat 0 s (cget R a c))) axes a).
Proof.
  intros HN X t0 dX HX H.
  change (tder t (fun u => prod (cget R a (X u))) t0
    (tadd Rplus t (apply 0 Rplus Rmult s t (weighed sums (others sums here)) (cget R a dX)) (tzero 0 t))).
  rewrite (tadd_zero_r RSR), (apply_pick RSR). apply store_der. intros k Hk. rewrite <- HX.
  apply (product_der sums (fun u => flat 0 s (cget R a (X u)))); [exact HN|].
  intros i. apply flat_der. now apply cder_get.
Qed.

(** * Extremes *)
Fixpoint group (T : triples) (y : N -> R) (k : N) : list R :=
  match T with [] => [] | (i, _, k') :: T => if (k =? k')%N then y i :: group T y k else group T y k end.
Lemma in_group T y k v : In v (group T y k) <-> exists i j, In (i, j, k) T /\ v = y i.
Proof.
  induction T as [|[[i j] k'] T IH]; simpl; [split; [tauto|intros (i & j & [] & _)]|].
  destruct (N.eqb_spec k k') as [->|Nk]; simpl; rewrite IH; split.
  - intros [<-|(i' & j' & H & ->)]; eauto 6.
  - intros (i' & j' & [E|H] & ->); [injection E as -> ->; now left|right; eauto].
  - intros (i' & j' & H & ->); eauto.
  - intros (i' & j' & [E|H] & ->); [congruence|eauto].
Qed.

(** [less] is an order, open along paths; [best] takes from a list the element that all others are less than. *)
Section Extreme.
Variable less : R -> R -> Prop.
Variable best : list R -> R.
Hypothesis best_wins : forall l w, In w l -> (forall v, In v l -> v = w \/ less v w) -> best l = w.
Hypothesis less_open : forall (y z : R -> R) (t0 dy dz : R), is_derive y t0 dy -> is_derive z t0 dz -> less (y t0) (z t0) ->
  locally t0 (fun u => less (y u) (z u)).

Definition extreme (v : tensor R s) : tensor R t := store 0 t (fun k => best (group sums (flat 0 s v) k)).
(** For each result the place of its winner, and all else strictly less. *)
Definition strict_winner (win : N -> N) : Prop :=
  forall k, In k (count 0%N (size t)) ->
    (exists j, In (win k, j, k) sums) /\ (forall i j, In (i, j, k) sums -> i = win k \/ less (here i) (here (win k))).
Definition winner_takes_all (win : N -> N) (i k : N) : R := if (i =? win k)%N then 1 else 0.

Lemma pick_winner T win z k : NoDup (pairs T) ->
  pick (weighed T (winner_takes_all win)) z k = if existsb (fun p => ((fst p =? win k)%N && (snd p =? k)%N)%bool) (pairs T) then z (win k) else 0.
Proof.
  induction T as [|[[i j] k'] T IH]; intros HN; [reflexivity|]. inversion HN as [|p l Hnot HN']; subst.
  rewrite pick_weighed_cons, IH by exact HN'. clear IH. cbn [pairs map existsb fst snd].
  unfold winner_takes_all at 1. rewrite (N.eqb_sym k k'). destruct (N.eqb_spec k' k) as [->|Nk].
  - destruct (N.eqb_spec i (win k)) as [->|Ni]; cbn [andb orb]; [|fold (pairs T); ring].
    assert (E : existsb (fun p => ((fst p =? win k)%N && (snd p =? k)%N)%bool) (pairs T) = false).
    { apply Bool.not_true_iff_false. rewrite existsb_exists. intros ([i' k''] & Hin & E). simpl in E.
      apply Bool.andb_true_iff in E. destruct E as [E1 E2]. apply N.eqb_eq in E1, E2. subst. contradiction. }
    fold (pairs T). rewrite E. ring.
  - rewrite Bool.andb_false_r. cbn [orb]. fold (pairs T). ring.
Qed.
Lemma locally_all A (l : list A) (P : A -> R -> Prop) t0 :
  (forall e, In e l -> locally t0 (P e)) -> locally t0 (fun u => forall e, In e l -> P e u).
Proof.
  induction l as [|e l IH]; intros H; [apply filter_forall; intros u e []|].
  assert (H1 := H e (or_introl eq_refl)). assert (H2 := IH (fun e' He => H e' (or_intror He))).
  apply (filter_imp (fun u => P e u /\ (forall e, In e l -> P e u))).
  - intros u [Hu Hl] e' [<-|He]; auto.
  - now apply filter_and.
Qed.

Theorem extreme_derivative win : NoDup (pairs sums) -> strict_winner win ->
  node_der (n_reduction RSR t (fun _ c => extreme (cget R a c)) (fun _ _ => winner_takes_all win) axes a).
Proof.
  intros HN HW. apply selected_derivative. intros X t0 dX HX H.
  assert (F : forall i, is_derive (fun u => flat 0 s (cget R a (X u)) i) t0 (flat 0 s (cget R a dX) i)).
  { intros i. apply flat_der. now apply cder_get. }
  assert (L : locally t0 (fun u => forall k, In k (count 0%N (size t)) -> forall e, In e sums ->
    let '(i, j, k') := e in k' = k -> i = win k \/ less (flat 0 s (cget R a (X u)) i) (flat 0 s (cget R a (X u)) (win k)))).
  { apply (locally_all (count 0%N (size t)) (fun k u => forall e, In e sums ->
      let '(i, j, k') := e in k' = k -> i = win k \/ less (flat 0 s (cget R a (X u)) i) (flat 0 s (cget R a (X u)) (win k)))).
    intros k Hk. apply (locally_all sums (fun e u =>
      let '(i, j, k') := e in k' = k -> i = win k \/ less (flat 0 s (cget R a (X u)) i) (flat 0 s (cget R a (X u)) (win k)))).
    intros [[i j] k'] He. destruct (N.eq_dec k' k) as [->|Nk]; [|apply filter_forall; intros; contradiction].
    destruct (HW k Hk) as [_ HL]. destruct (HL i j He) as [->|Hless]; [apply filter_forall; now left|].
    rewrite <- HX in Hless. generalize (less_open (F i) (F (win k)) Hless). apply filter_imp. now right. }
  revert L. apply filter_imp. intros u Hu. rewrite (apply_pick RSR). apply store_ext. intros k Hk.
  rewrite pick_winner by exact HN. destruct (HW k Hk) as [[j Hj] _].
  replace (existsb _ (pairs sums)) with true.
  - apply best_wins.
    + apply in_group. eauto.
    + intros v Hv. apply in_group in Hv. destruct Hv as (i & j' & Hin & ->).
      destruct (Hu k Hk _ Hin eq_refl) as [->|Hless]; auto.
  - symmetry. apply existsb_exists. exists (win k, k). split; [|now rewrite !N.eqb_refl].
    unfold pairs. apply in_map_iff. now exists (win k, j, k).
Qed.
End Extreme.

Definition list_max (l : list R) : R := match l with [] => 0 | v :: l => fold_left Rmax l v end.
Definition list_min (l : list R) : R := match l with [] => 0 | v :: l => fold_left Rmin l v end.
Lemma fold_max w l : forall v, (w = v \/ In w l) -> v <= w -> (forall z, In z l -> z <= w) -> fold_left Rmax l v = w.
Proof.
  induction l as [|z l IH]; simpl; intros v Hin Hv Hl; [destruct Hin as [->|[]]; reflexivity|].
  apply IH.
  - destruct Hin as [E|[E|Hin]]; [left|left|now right]; symmetry.
    + rewrite <- E. apply Rmax_left. now apply Hl; left.
    + rewrite E. now apply Rmax_right.
  - apply Rmax_lub; auto.
  - intros; apply Hl; auto.
Qed.
Lemma fold_min w l : forall v, (w = v \/ In w l) -> w <= v -> (forall z, In z l -> w <= z) -> fold_left Rmin l v = w.
Proof.
  induction l as [|z l IH]; simpl; intros v Hin Hv Hl; [destruct Hin as [->|[]]; reflexivity|].
  apply IH.
  - destruct Hin as [E|[E|Hin]]; [left|left|now right]; symmetry.
    + rewrite <- E. apply Rmin_left. now apply Hl; left.
    + rewrite E. now apply Rmin_right.
  - apply Rmin_glb; auto.
  - intros; apply Hl; auto.
Qed.
Lemma max_wins l w : In w l -> (forall v, In v l -> v = w \/ v < w) -> list_max l = w.
Proof.
  destruct l as [|v l]; simpl; intros Hin H; [contradiction|]. apply fold_max.
  - destruct Hin; auto.
  - destruct (H v (or_introl eq_refl)); lra.
  - intros z Hz. destruct (H z (or_intror Hz)); lra.
Qed.
Lemma min_wins l w : In w l -> (forall v, In v l -> v = w \/ v > w) -> list_min l = w.
Proof.
  destruct l as [|v l]; simpl; intros Hin H; [contradiction|]. apply fold_min.
  - destruct Hin; auto.
  - destruct (H v (or_introl eq_refl)); lra.
  - intros z Hz. destruct (H z (or_intror Hz)); lra.
Qed.
(** Where each result has one strict winner, the winner takes the whole derivative. *)
Theorem max_derivative win : NoDup (pairs sums) -> strict_winner Rlt win ->
  node_der (n_max RSR t (fun _ c => extreme list_max (cget R a c)) (fun _ _ => winner_takes_all win) axes a).
Proof.
  apply extreme_derivative; [exact max_wins|].
  intros y z t0 dy dz Hy Hz H. exact (path_apart z y t0 dz dy Hz Hy H).
Qed.
Theorem min_derivative win : NoDup (pairs sums) -> strict_winner Rgt win ->
  node_der (n_min RSR t (fun _ c => extreme list_min (cget R a c)) (fun _ _ => winner_takes_all win) axes a).
Proof.
  apply extreme_derivative; [exact min_wins|].
  intros y z t0 dy dz Hy Hz H. exact (path_apart y z t0 dy dz Hy Hz H).
Qed.
End Reductions.
