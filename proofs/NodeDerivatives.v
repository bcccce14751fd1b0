(** Over the reals, the general nodes have their jvp as derivative: elementwise functions, tables, products of tables. *)
Require Import Reals List Lra Ring NArith Lia FunctionalExtensionality.
Import ListNotations.
From Coquelicot Require Import Coquelicot.
From Backproof Require Import Tensor Graph Adjoint Table Index Primitives Derivative RealFunctions.
Set Implicit Arguments.
Local Open Scope R_scope.

(** A property of every element, or of every pair of elements. *)
Fixpoint tall A (P : A -> Prop) (s : shape) : tensor A s -> Prop :=
  match s return tensor A s -> Prop with
  | scalar => P
  | dim n s => (fix go n : vec (tensor A s) n -> Prop :=
      match n with O => fun _ => True | S n => fun v => tall P s (fst v) /\ go n (snd v) end) n
  end.
Lemma tall_true A (P : A -> Prop) : (forall a, P a) -> forall s (v : tensor A s), tall P s v.
Proof.
  intros H. induction s as [|n s IHs]; [exact H|].
  induction n; intros v; [exact I|]. split; [apply IHs|exact (IHn (snd v))].
Qed.

Section NodeDerivatives.
Variable D : Type.
Notation tensor := (tensor R).
Notation ctx := (ctx R).
Notation tadd := (tadd Rplus).
Notation tmul := (tmul Rmult).
Notation tzero := (tzero 0).
Notation node_der := (@node_der D).

(** * Elementwise *)
Notation one v := (tzip cons _ v (tfill (@nil R) _)).
Notation two v w := (tzip cons _ v (tzip cons _ w (tfill (@nil R) _))).
Notation three u v w := (tzip cons _ u (tzip cons _ v (tzip cons _ w (tfill (@nil R) _)))).

Lemma tder_unary (f p : R -> R) s F t dF :
  tall (fun x => is_derive f x (p x)) s (F t) -> tder s F t dF ->
  tder s (fun u => tmap (unary 0 f) s (one (F u))) t (tadd s (tmul s (tmap (unary 0 p) s (one (F t))) dF) (tzero s)).
Proof.
  unfold Tensor.tadd, Tensor.tmul, Tensor.tzero.
  revert F dF; induction s as [|n s IHs].
  - intros F dF H H0. apply (d_eq (a := p (F t) * dF)); [simpl; ring|]. exact (d_comp f F t (p (F t)) dF H H0).
  - induction n; [exact (fun _ _ _ _ => I)|]. intros F dF [H1 H2] [H3 H4]. split.
    + exact (IHs (fun u => fst (F u)) (fst dF) H1 H3).
    + exact (IHn (fun u => snd (F u)) (snd dF) H2 H4).
Qed.
Lemma tder_binary (f p q : R -> R -> R) s F G t dF dG :
  tall (fun x => x) s (tzip (slopes2 f p q) s (F t) (G t)) -> tder s F t dF -> tder s G t dG ->
  tder s (fun u => tmap (binary 0 f) s (two (F u) (G u))) t
    (tadd s (tmul s (tmap (binary 0 p) s (two (F t) (G t))) dF)
      (tadd s (tmul s (tmap (binary 0 q) s (two (F t) (G t))) dG) (tzero s))).
Proof.
  unfold Tensor.tadd, Tensor.tmul, Tensor.tzero.
  revert F G dF dG; induction s as [|n s IHs].
  - intros F G dF dG H H0 H1. apply (d_eq (a := p (F t) (G t) * dF + q (F t) (G t) * dG)); [simpl; ring|].
    exact (H F G t dF dG eq_refl eq_refl H0 H1).
  - induction n; [exact (fun _ _ _ _ _ _ _ => I)|]. intros F G dF dG [H1 H2] [H3 H4] [H5 H6]. split.
    + exact (IHs (fun u => fst (F u)) (fun u => fst (G u)) (fst dF) (fst dG) H1 H3 H5).
    + exact (IHn (fun u => snd (F u)) (fun u => snd (G u)) (snd dF) (snd dG) H2 H4 H6).
Qed.

Theorem unary_derivative G s (f p : R -> R) (a : idx G s) d x :
  tall (fun v => is_derive f v (p v)) s (cget R a x) -> node_der (n_unary D RSR f p a) d x.
Proof.
  intros Hf X t0 dX <- H. exact (tder_unary f p s (fun u => cget R a (X u)) t0 _ Hf (cder_get a X t0 dX H)).
Qed.
Theorem binary_derivative G s (f p q : R -> R -> R) (a b : idx G s) d x :
  tall (fun x => x) s (tzip (slopes2 f p q) s (cget R a x) (cget R b x)) -> node_der (n_binary D RSR f p q a b) d x.
Proof.
  intros Hf X t0 dX <- H.
  exact (tder_binary f p q s (fun u => cget R a (X u)) (fun u => cget R b (X u)) t0 _ _ Hf
    (cder_get a X t0 dX H) (cder_get b X t0 dX H)).
Qed.
Lemma tall_zip (P : R -> R -> Prop) : (forall a b, P a b) -> forall s (v w : tensor s), tall (fun x => x) s (tzip P s v w).
Proof.
  intros H. induction s as [|n s IHs]; [exact H|].
  induction n; intros v w; [exact I|]. split; [apply IHs|exact (IHn (snd v) (snd w))].
Qed.

(** A condition is 0 or 1 and does not move: near c, [holds] does not change. *)
Definition holds (c : R) : bool := if Rlt_dec (/ 2) c then true else false.
Lemma holds_near (C : R -> R) (t dc : R) : C t <> / 2 -> is_derive C t dc -> locally t (fun u => holds (C u) = holds (C t)).
Proof.
  intros N H. unfold holds. apply d_continuous in H. destruct (Rlt_dec (/ 2) (C t)) as [P|P].
  - assert (L : locally (C t) (fun c => / 2 < c)) by (apply (near_above _ _ (/ 2) P); auto).
    apply H in L. revert L. unfold filtermap. apply filter_imp. intros u Hu.
    destruct (Rlt_dec (/ 2) (C u)); [reflexivity|contradiction].
  - assert (L : locally (C t) (fun c => c < / 2)) by (apply (near_below _ _ (/ 2)); [lra|auto]).
    apply H in L. revert L. unfold filtermap. apply filter_imp. intros u Hu.
    destruct (Rlt_dec (/ 2) (C u)); [lra|reflexivity].
Qed.
Lemma tder_where s C A B t dC dA dB :
  tall (fun c => c <> / 2) s (C t) -> tder s C t dC -> tder s A t dA -> tder s B t dB ->
  tder s (fun u => tmap (ternary 0 (fun c a b => if holds c then a else b)) s (three (C u) (A u) (B u))) t
    (tadd s (tmul s (tmap (ternary 0 (fun c _ _ => if holds c then 1 else 0)) s (three (C t) (A t) (B t))) dA)
      (tadd s (tmul s (tmap (ternary 0 (fun c _ _ => if holds c then 0 else 1)) s (three (C t) (A t) (B t))) dB) (tzero s))).
Proof.
  unfold Tensor.tadd, Tensor.tmul, Tensor.tzero.
  revert C A B dC dA dB; induction s as [|n s IHs].
  - intros C A B dC dA dB N HC HA HB. pose proof (@holds_near C t dC N HC) as L.
    apply (d_near (if holds (C t) then A else B)).
    + revert L. apply filter_imp. intros u Hu. simpl. rewrite Hu. now destruct (holds (C t)).
    + apply (d_eq (a := if holds (C t) then dA else dB)); [|now destruct (holds (C t))].
      assert (E1 : forall p q : R, p = 1 * p + (0 * q + 0)) by (intros; ring).
      assert (E2 : forall p q : R, q = 0 * p + (1 * q + 0)) by (intros; ring).
      simpl. destruct (holds (C t)); [apply E1|apply E2].
  - induction n; [exact (fun _ _ _ _ _ _ _ _ _ _ => I)|].
    intros C A B dC dA dB [N1 N2] [H1 H2] [H3 H4] [H5 H6]. split.
    + exact (IHs (fun u => fst (C u)) (fun u => fst (A u)) (fun u => fst (B u)) (fst dC) (fst dA) (fst dB) N1 H1 H3 H5).
    + exact (IHn (fun u => snd (C u)) (fun u => snd (A u)) (fun u => snd (B u)) (snd dC) (snd dA) (snd dB) N2 H2 H4 H6).
Qed.

(** * Row-major order along a path *)
Lemma elems_der s F t dF (L : R -> list R) dL :
  tder s F t dF -> (forall k, is_derive (fun u => nth k (L u) 0) t (nth k dL 0)) ->
  forall k, is_derive (fun u => nth k (elems s (F u) (L u)) 0) t (nth k (elems s dF dL) 0).
Proof.
  revert F dF L dL; induction s as [|n s IHs].
  - intros F dF L dL H HL [|k]; [exact H|exact (HL k)].
  - induction n; [intros F dF L dL _ HL; exact HL|]. intros F dF L dL [H1 H2] HL.
    apply (IHs (fun u => fst (F u)) (fst dF) (fun u => elems (dim n s) (snd (F u)) (L u)) (elems (dim n s) (snd dF) dL) H1).
    exact (IHn (fun u => snd (F u)) (snd dF) L dL H2 HL).
Qed.
Lemma flat_der s F t dF k : tder s F t dF -> is_derive (fun u => flat 0 s (F u) k) t (flat 0 s dF k).
Proof.
  intros H. unfold flat, to_list. apply (@elems_der s F t dF (fun _ => []) [] H).
  intros j. destruct j; apply d_const.
Qed.
Lemma snd_fill s (l : list R) : snd (fill 0 s l) = skipn (size s) l.
Proof.
  revert l; induction s as [|n s IHs]; [intros [|a l]; reflexivity|].
  induction n; intros l; [reflexivity|]. simpl in *.
  specialize (IHs l). destruct (fill 0 s l) as [a l1]. simpl in IHs. subst l1.
  specialize (IHn (skipn (size s) l)). destruct (vfill_from (fill 0 s) n (skipn (size s) l)) as [b l2]. simpl in *.
  subst l2.
  clear. revert l. generalize (n * size s)%nat as m. generalize (size s) as k.
  induction k; intros m l; simpl; [reflexivity|]. destruct l; [now rewrite !skipn_nil|]. apply IHk.
Qed.
Lemma fill_der s (f : R -> N -> R) t df ks :
  (forall k, In k ks -> is_derive (fun u => f u k) t (df k)) ->
  tder s (fun u => fst (fill 0 s (map (f u) ks))) t (fst (fill 0 s (map df ks))).
Proof.
  revert ks; induction s as [|n s IHs].
  - intros [|k ks] H; [exact (d_const 0 t)|]. exact (H k (or_introl eq_refl)).
  - induction n; intros ks H; [exact I|].
    assert (E : forall g : N -> R, fst (fill 0 (dim (S n) s) (map g ks)) =
      (fst (fill 0 s (map g ks)), fst (fill 0 (dim n s) (map g (skipn (size s) ks))))).
    { intros g. rewrite <- skipn_map, <- snd_fill. simpl.
      destruct (fill 0 s (map g ks)) as [a l1]. simpl. now destruct (vfill_from (fill 0 s) n l1). }
    rewrite E. apply (tder_ext (dim (S n) s) (fun u => (fst (fill 0 s (map (f u) ks)), fst (fill 0 (dim n s) (map (f u) (skipn (size s) ks)))))).
    { intros u. now rewrite E. }
    split; [exact (IHs ks H)|].
    apply (IHn (skipn (size s) ks)). intros k Hk. apply H.
    rewrite <- (firstn_skipn (size s) ks). apply in_or_app. now right.
Qed.
Lemma store_der s (f : R -> N -> R) t df :
  (forall k, In k (count 0%N (size s)) -> is_derive (fun u => f u k) t (df k)) ->
  tder s (fun u => store 0 s (f u)) t (store 0 s df).
Proof. apply fill_der. Qed.
Lemma store_add s (f g : N -> R) : store 0 s (fun k => f k + g k) = tadd s (store 0 s f) (store 0 s g).
Proof.
  unfold store, of_list. generalize (count 0%N (size s)) as ks.
  unfold Tensor.tadd. induction s as [|n s IHs].
  - intros [|k ks]; simpl; ring.
  - induction n; intros ks; [reflexivity|].
    assert (E : forall g : N -> R, fst (fill 0 (dim (S n) s) (map g ks)) =
      (fst (fill 0 s (map g ks)), fst (fill 0 (dim n s) (map g (skipn (size s) ks))))).
    { intros h. rewrite <- skipn_map, <- snd_fill. simpl.
      destruct (fill 0 s (map h ks)) as [a l1]. simpl. now destruct (vfill_from (fill 0 s) n l1). }
    rewrite !E. cbn [tzip vzip fst snd]. f_equal; [apply IHs|]. exact (IHn (skipn (size s) ks)).
Qed.
Lemma store_zero s : store 0 s (fun _ => 0) = tzero s.
Proof.
  unfold store, of_list, Tensor.tzero. generalize (count 0%N (size s)) as ks.
  induction s as [|n s IHs]; [intros [|k ks]; reflexivity|].
  induction n; intros ks; [reflexivity|]. specialize (IHs ks). simpl in *.
  pose proof (snd_fill s (map (fun _ => 0) ks)) as E.
  destruct (fill 0 s (map (fun _ => 0) ks)) as [a l1]. simpl in *. subst.
  rewrite skipn_map. specialize (IHn (skipn (size s) ks)).
  destruct (vfill_from (fill 0 s) n (map (fun _ => 0) (skipn (size s) ks))) as [b l2]. simpl in *. now subst.
Qed.

(** * Tables *)
Notation pick := (pick 0 Rplus Rmult).
Notation apply := (apply 0 Rplus Rmult).
Lemma pick_der T (x : R -> N -> R) t dx k : (forall i, is_derive (fun u => x u i) t (dx i)) ->
  is_derive (fun u => pick T (x u) k) t (pick T dx k).
Proof.
  intros H. induction T as [|[[i c] k'] T IH]; cbn [Table.pick]; [apply d_const|].
  apply (d_plus (fun u => if (k =? k')%N then c * x u i else 0)); [|exact IH].
  destruct (k =? k')%N; [|apply d_const].
  apply (d_eq (a := 0 * x t i + c * dx i)); [ring|].
  exact (d_mult (fun _ => c) (fun u => x u i) t 0 (dx i) (d_const c t) (H i)).
Qed.
Lemma apply_der sa s T F t dF : tder sa F t dF -> tder s (fun u => apply sa s T (F u)) t (apply sa s T dF).
Proof.
  intros H. rewrite (apply_pick RSR).
  apply (tder_ext _ (fun u => store 0 s (pick T (flat 0 sa (F u))))). { intros u. now rewrite (apply_pick RSR). }
  apply store_der. intros k _. apply (pick_der T (fun u => flat 0 sa (F u))). intros i. now apply flat_der.
Qed.

(** A table that does not change near the point: constant, from the environment, or a decision away from its ties. *)
Definition stable G (T : D -> ctx G -> table R) (d : D) (x : ctx G) : Prop :=
  forall X t0 dX, X t0 = x -> cder G X t0 dX -> locally t0 (fun u => T d (X u) = T d x).
Definition stable_source G (d : D) (x : ctx G) (p : source R D G) : Prop := stable G (snd (projT2 p)) d x.

Theorem linear_derivative G t (sources : list (source R D G)) d x :
  List.Forall (stable_source d x) sources -> node_der (n_linear RSR t sources) d x.
Proof.
  intros HS X t0 dX HX H. cbn [fwd jvp n_linear local].
  induction HS as [|[s [a T]] sources Hp HS IH]; [exact (tder_const t (tzero t) t0)|].
  change (tder t (fun u => tadd t (apply s t (T d (X u)) (cget R a (X u)))
     (total 0 Rplus t (map (fun p => apply (projT1 p) t (snd (projT2 p) d (X u)) (cget R (fst (projT2 p)) (X u))) sources))) t0
    (tadd t (apply s t (T d x) (cget R a dX))
      (sum_tangents 0 Rplus t (map (part_jvp d x dX) (map (source_part RSR t) sources))))).
  apply tder_add; [|exact IH].
  apply (tder_near _ (fun u => apply s t (T d x) (cget R a (X u)))).
  - specialize (Hp X t0 dX HX H). revert Hp. apply filter_imp. simpl. intros u Hu. now rewrite Hu.
  - apply apply_der. now apply cder_get.
Qed.

(** Any forward function that agrees near the point with a fixed table of its argument. *)
Theorem selected_derivative G s t (F : D -> ctx G -> tensor t) (T : D -> ctx G -> table R) (a : idx G s) d x :
  (forall X t0 dX, X t0 = x -> cder G X t0 dX -> locally t0 (fun u => F d (X u) = apply s t (T d x) (cget R a (X u)))) ->
  node_der (n_tabled RSR t F (mksource a T :: nil)) d x.
Proof.
  intros HF X t0 dX HX H. cbn [fwd jvp n_tabled local].
  change (tder t (fun u => F d (X u)) t0 (tadd t (apply s t (T d x) (cget R a dX)) (tzero t))).
  rewrite (tadd_zero_r RSR). apply (tder_near _ (fun u => apply s t (T d x) (cget R a (X u)))).
  - specialize (HF X t0 dX HX H). revert HF. apply filter_imp. intros u Hu. now rewrite Hu.
  - apply apply_der. now apply cder_get.
Qed.

(** * Products of tables *)
Fixpoint pick2 (T : triples) (a b : N -> R) (k : N) : R :=
  match T with [] => 0 | (i, j, k') :: T => (if (k =? k')%N then a i * b j else 0) + pick2 T a b k end.
Lemma pick_left T b x k : pick (left_table 0 T b) x k = pick2 T x (read 0 b) k.
Proof. induction T as [|[[i j] k'] T IH]; simpl; [reflexivity|]. rewrite IH. destruct (k =? k')%N; ring. Qed.
Lemma pick_right T a y k : pick (right_table 0 T a) y k = pick2 T (read 0 a) y k.
Proof. induction T as [|[[i j] k'] T IH]; simpl; [reflexivity|]. rewrite IH. destruct (k =? k')%N; ring. Qed.
Lemma pick2_ext T a a' b b' k : (forall i, a i = a' i) -> (forall j, b j = b' j) -> pick2 T a b k = pick2 T a' b' k.
Proof. intros H H'. induction T as [|[[i j] k'] T IH]; simpl; [reflexivity|]. now rewrite IH, H, H'. Qed.
Lemma pick2_der T (a b : R -> N -> R) t da db k :
  (forall i, is_derive (fun u => a u i) t (da i)) -> (forall j, is_derive (fun u => b u j) t (db j)) ->
  is_derive (fun u => pick2 T (a u) (b u) k) t (pick2 T da (b t) k + pick2 T (a t) db k).
Proof.
  intros Ha Hb. induction T as [|[[i j] k'] T IH]; cbn [pick2].
  - apply (d_eq (a := 0)); [ring|apply d_const].
  - apply (d_eq (a := (if (k =? k')%N then da i * b t j + a t i * db j else 0)
                     + (pick2 T da (b t) k + pick2 T (a t) db k))); [destruct (k =? k')%N; ring|].
    apply (d_plus (fun u => if (k =? k')%N then a u i * b u j else 0)); [|exact IH].
    destruct (k =? k')%N; [|apply d_const].
    exact (d_mult (fun u => a u i) (fun u => b u j) t _ _ (Ha i) (Hb j)).
Qed.
Lemma apply_left sa sb s T (v : tensor sa) (w : tensor sb) :
  apply sa s (left_table 0 T (array_of R sb w)) v = store 0 s (pick2 T (flat 0 sa v) (flat 0 sb w)).
Proof.
  rewrite (apply_pick RSR). unfold store. f_equal. apply map_ext. intros k. rewrite pick_left.
  apply pick2_ext; intros; [reflexivity|apply read_array_of].
Qed.
Lemma apply_right sa sb s T (v : tensor sa) (w : tensor sb) :
  apply sb s (right_table 0 T (array_of R sa v)) w = store 0 s (pick2 T (flat 0 sa v) (flat 0 sb w)).
Proof.
  rewrite (apply_pick RSR). unfold store. f_equal. apply map_ext. intros k. rewrite pick_right.
  apply pick2_ext; intros; [apply read_array_of|reflexivity].
Qed.
Theorem bilinear_derivative G sa sb t T (a : idx G sa) (b : idx G sb) d x : node_der (n_bilinear D RSR t T a b) d x.
Proof.
  intros X t0 dX <- H.
  change (tder t (fun u => apply sa t (left_table 0 T (array_of R sb (cget R b (X u)))) (cget R a (X u))) t0
    (tadd t (apply sa t (left_table 0 T (array_of R sb (cget R b (X t0)))) (cget R a dX))
      (tadd t (apply sb t (right_table 0 T (array_of R sa (cget R a (X t0)))) (cget R b dX)) (tzero t)))).
  rewrite (tadd_zero_r RSR), apply_left, apply_right, <- store_add.
  apply (tder_ext _ (fun u => store 0 t (pick2 T (flat 0 sa (cget R a (X u))) (flat 0 sb (cget R b (X u)))))).
  { intros u. now rewrite apply_left. }
  apply store_der. intros k _.
  apply (pick2_der T (fun u => flat 0 sa (cget R a (X u))) (fun u => flat 0 sb (cget R b (X u))));
    intros; apply flat_der; now apply cder_get.
Qed.
End NodeDerivatives.
