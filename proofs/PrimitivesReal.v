(** Every differentiable primitive, over the reals: its jvp is the derivative of its forward function, on its domain.

    With [backprop_is_gradient] this makes backpropagation through any graph of these the gradient, wherever each node is
    at a point of its domain. *)
Require Import Reals List Lra Ring NArith ZArith Lia.
Import ListNotations.
From Coquelicot Require Import Coquelicot.
From Backproof Require Import Tensor Graph Adjoint Table Index Primitives Derivative RealFunctions NodeDerivatives.
Set Implicit Arguments.
Local Open Scope R_scope.

Lemma tall_imp A (P Q : A -> Prop) : (forall a, P a -> Q a) -> forall s (v : tensor A s), tall P s v -> tall Q s v.
Proof.
  intros H. induction s as [|n s IHs]; [exact H|].
  induction n; intros v; [exact (fun _ => I)|]. intros [H1 H2]. split; [now apply IHs|exact (IHn (snd v) H2)].
Qed.
(** P holds of every element of v with the element of w at the same place. *)
Definition pairwise (P : R -> R -> Prop) s (v w : tensor R s) : Prop := tall (fun x => x) s (tzip P s v w).
Lemma pairwise_imp (P Q : R -> R -> Prop) : (forall a b, P a b -> Q a b) ->
  forall s (v w : tensor R s), pairwise P s v w -> pairwise Q s v w.
Proof.
  unfold pairwise. intros H. induction s as [|n s IHs]; [exact H|].
  induction n; intros v w; [exact (fun _ => I)|]. intros [H1 H2].
  split; [now apply IHs|exact (IHn (snd v) (snd w) H2)].
Qed.

Lemma tder_sign s F t dF : tall (fun v => v <> 0) s (F t) -> tder s F t dF -> tder s (fun u => tmap sign s (F u)) t (tzero 0 s).
Proof.
  unfold tzero. revert F dF; induction s as [|n s IHs].
  - intros F dF N H. apply (d_eq (a := 0 * dF)); [simpl; ring|]. exact (d_comp sign F t 0 dF (sign_slope _ N) H).
  - induction n; [exact (fun _ _ _ _ => I)|]. intros F dF [N1 N2] [H1 H2]. split.
    + exact (IHs (fun u => fst (F u)) (fst dF) N1 H1).
    + exact (IHn (fun u => snd (F u)) (snd dF) N2 H2).
Qed.

Section Real.
Variable D : Type.
Variables (G : list shape) (s t : shape).
Variables (d : D) (x : ctx R G).
Notation node_der n := (@node_der D G _ n d x).
Notation every P a := (tall P s (cget R a x)).
Notation every2 P a b := (pairwise P s (cget R a x) (cget R b x)).
Implicit Types a b c : idx G s.

Ltac everywhere lemma := apply unary_derivative, tall_true; intros; apply lemma.
Ltac where_allowed lemma := intros; apply unary_derivative; match goal with H : tall _ _ _ |- _ => revert H end; apply tall_imp; exact lemma.
Ltac everywhere2 lemma := apply binary_derivative, tall_zip; intros; apply lemma.
Ltac where_allowed2 lemma := intros; apply binary_derivative; match goal with H : pairwise _ _ _ _ |- _ => revert H end; apply pairwise_imp; exact lemma.

(** * Elementwise *)
Theorem add_derivative a b : node_der (n_add D RSR a b).
Proof. everywhere2 add_slopes. Qed.
Theorem sub_derivative a b : node_der (n_sub Ropp D RSR a b).
Proof. everywhere2 sub_slopes. Qed.
Theorem mul_derivative a b : node_der (n_mul D RSR a b).
Proof. everywhere2 mul_slopes. Qed.
Theorem div_derivative a b : every (fun v => v <> 0) b -> node_der (n_div Ropp Rinv D RSR a b).
Proof.
  intros H. apply binary_derivative. revert H.
  generalize (cget R a x) (cget R b x). clear. induction s as [|n u IHu]; [intros v w; apply div_slopes|].
  induction n; intros v w; [exact (fun _ => I)|]. intros [H1 H2]. split; [now apply IHu|exact (IHn (snd v) (snd w) H2)].
Qed.
Theorem neg_derivative a : node_der (n_neg Ropp D RSR a).
Proof. apply unary_derivative, tall_true. intros v. exact (d_opp (fun u => u) v 1 (d_id v)). Qed.
(** a > 0 and a real exponent. *)
Theorem pow_derivative a b : every2 (fun u _ => 0 < u) a b ->
  node_der (n_pow D RSR Rpower (fun u v => v * Rpower u (v - 1)) (fun u v => Rpower u v * ln u) a b).
Proof. where_allowed2 pow_slopes. Qed.
(** Any a, and a whole exponent held fixed. *)
Theorem pow_nat_derivative (n : nat) a : node_der (n_unary D RSR (fun u => u ^ n) (fun u => INR n * u ^ pred n) a).
Proof. everywhere pow_nat_slope. Qed.
Theorem exp_derivative a : node_der (n_exp D RSR exp a).
Proof. everywhere exp_slope. Qed.
Theorem expm1_derivative a : node_der (n_expm1 D RSR expm1 a).
Proof. everywhere expm1_slope. Qed.
Theorem log_derivative a : every (fun v => 0 < v) a -> node_der (n_log Rinv D RSR ln a).
Proof. where_allowed log_slope. Qed.
Theorem log1p_derivative a : every (fun v => -1 < v) a -> node_der (n_log1p Rinv D RSR log1p a).
Proof. where_allowed log1p_slope. Qed.
Theorem sqrt_derivative a : every (fun v => 0 < v) a -> node_der (n_sqrt Rinv D RSR sqrt a).
Proof. where_allowed sqrt_slope. Qed.
Theorem rsqrt_derivative a : every (fun v => 0 < v) a -> node_der (n_rsqrt Ropp Rinv D RSR rsqrt a).
Proof. where_allowed rsqrt_slope. Qed.
Theorem tanh_derivative a : node_der (n_tanh Ropp D RSR tanh a).
Proof. everywhere tanh_slope. Qed.
Theorem sigmoid_derivative a : node_der (n_sigmoid Ropp D RSR sigmoid a).
Proof. everywhere sigmoid_slope. Qed.
Theorem erf_derivative a : node_der (n_erf Ropp D RSR erf exp erf_scale a).
Proof. everywhere erf_slope. Qed.
Theorem sin_derivative a : node_der (n_sin D RSR sin cos a).
Proof. everywhere sin_slope. Qed.
Theorem cos_derivative a : node_der (n_cos Ropp D RSR cos sin a).
Proof. everywhere cos_slope. Qed.
Theorem relu_derivative a : every (fun v => v <> 0) a -> node_der (n_relu D RSR relu positive a).
Proof. where_allowed relu_slope. Qed.
Theorem abs_derivative a : every (fun v => v <> 0) a -> node_der (n_abs D RSR Rabs sign a).
Proof. where_allowed abs_slope. Qed.
Theorem maximum_derivative a b : every2 (fun u v => u <> v) a b -> node_der (n_maximum D RSR Rmax wins (fun u v => wins v u) a b).
Proof. where_allowed2 maximum_slopes. Qed.
Theorem minimum_derivative a b : every2 (fun u v => u <> v) a b -> node_der (n_minimum D RSR Rmin (fun u v => wins v u) wins a b).
Proof. where_allowed2 minimum_slopes. Qed.
(** The condition is not at its threshold; as 0 or 1 it never is. *)
Theorem where_derivative c a b : every (fun v => v <> / 2) c -> node_der (n_where D RSR holds c a b).
Proof.
  intros N X t0 dX <- H.
  exact (tder_where s (fun u => cget R c (X u)) (fun u => cget R a (X u)) (fun u => cget R b (X u)) t0 _ _ _ N
    (cder_get c X t0 dX H) (cder_get a X t0 dX H) (cder_get b X t0 dX H)).
Qed.
Theorem cast_derivative a : node_der (n_cast D RSR a).
Proof. apply unary_derivative, tall_true. apply d_id. Qed.
(** Away from 0 a sign does not move, so "no derivative" is its derivative. *)
Theorem sign_derivative a : every (fun v => v <> 0) a -> node_der (n_sign 0 Rplus Rmult D sign a).
Proof.
  intros N X t0 dX <- H. exact (tder_sign s (fun u => cget R a (X u)) t0 _ N (cder_get a X t0 dX H)).
Qed.

(** * Rearrangements and sums: linear, so their own derivative *)
Lemma stable_const u (i : idx G u) (T : table R) : stable_source d x (mksource i (fun _ _ => T)).
Proof. intros X t0 dX HX H. now apply filter_forall. Qed.
Ltac linear := intros; apply linear_derivative; constructor; [apply stable_const|constructor].

Theorem reshape_derivative a : node_der (n_reshape D RSR t a).
Proof. linear. Qed.
Theorem transpose_derivative axes a : node_der (n_transpose D RSR t axes a).
Proof. linear. Qed.
Theorem broadcast_derivative axes a : node_der (n_broadcast D RSR t axes a).
Proof. linear. Qed.
Theorem slice_derivative start step a : node_der (n_slice D RSR t start step a).
Proof. linear. Qed.
Theorem pad_derivative low interior a : node_der (n_pad D RSR t low interior a).
Proof. linear. Qed.
Theorem flip_derivative axes a : node_der (n_flip D RSR t axes a).
Proof. linear. Qed.
Theorem concat_derivative inputs axis : node_der (n_concat D RSR (G := G) t inputs axis).
Proof.
  apply linear_derivative. induction inputs as [|[u [i n]] inputs IH]; constructor; [apply stable_const|exact IH].
Qed.
Theorem sum_derivative axes a : node_der (n_sum D RSR t axes a).
Proof. linear. Qed.
Theorem cumsum_derivative axis reverse a : node_der (n_cumsum D RSR t axis reverse a).
Proof. linear. Qed.
Theorem sum_pool_derivative window stride dilation low a : node_der (n_sum_pool D RSR t window stride dilation low a).
Proof. linear. Qed.

(** * Reading and writing by index: wherever the indices do not change nearby (from the environment, they never do) *)
Definition settled (index : D -> ctx R G -> list Z) : Prop :=
  forall X t0 dX, X t0 = x -> cder G X t0 dX -> locally t0 (fun u => index d (X u) = index d x).
Lemma environment_settled (index : D -> list Z) : settled (fun d _ => index d).
Proof. intros X t0 dX HX H. now apply filter_forall. Qed.
Lemma stable_index (T : list Z -> table R) index : settled index -> stable G (fun d v => T (index d v)) d x.
Proof.
  intros HI X t0 dX HX H. specialize (HI X t0 dX HX H). revert HI. apply filter_imp. intros u Hu. now rewrite Hu.
Qed.

Theorem gather_derivative index axis a : settled index -> node_der (n_gather RSR t index axis a).
Proof. intros H. apply linear_derivative. constructor; [|constructor]. exact (@stable_index (fun l => plain 1 (gather_table (dims_of s) axis l)) index H). Qed.
Theorem scatter_add_derivative index axis a : settled index -> node_der (n_scatter_add RSR t index axis a).
Proof. intros H. apply linear_derivative. constructor; [|constructor]. exact (@stable_index (fun l => plain 1 (scatter_add_table (dims_of t) axis l)) index H). Qed.
Theorem gather_along_derivative index axis a : settled index -> node_der (n_gather_along RSR t index axis a).
Proof.
  intros H. apply linear_derivative. constructor; [|constructor].
  exact (@stable_index (fun l => plain 1 (gather_along_table (dims_of s) axis (at_axis (dims_of t) axis) l)) index H).
Qed.
Theorem scatter_along_derivative index axis a : settled index -> node_der (n_scatter_along RSR t index axis a).
Proof.
  intros H. apply linear_derivative. constructor; [|constructor].
  exact (@stable_index (fun l => plain 1 (scatter_along_table (dims_of t) axis (at_axis (dims_of s) axis) l)) index H).
Qed.
(** Where the winners of the windows do not change nearby. *)
Theorem max_pool_derivative planes winners a : settled winners -> node_der (n_max_pool RSR t planes winners a).
Proof.
  intros H. apply linear_derivative. constructor; [|constructor].
  exact (@stable_index (fun l => plain 1 (gather_along_table [planes; (volume (dims_of s) / planes)%N] 1%N
    (volume (dims_of t) / planes)%N l)) winners H).
Qed.

(** * Products *)
Theorem dot_general_derivative ca cb ba bb sa sb (a : idx G sa) (b : idx G sb) :
  node_der (n_dot_general D RSR t ca cb ba bb a b).
Proof. apply bilinear_derivative. Qed.
Theorem conv_derivative stride di dw low groups sx sw (a : idx G sx) (b : idx G sw) :
  node_der (n_conv D RSR t stride di dw low groups a b).
Proof. apply bilinear_derivative. Qed.
End Real.
