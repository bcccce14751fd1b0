(** Calculus in one variable: the slope that each rule writes down is the derivative, on the function's domain. *)
Require Import Reals Lra Ring Psatz.
From Coquelicot Require Import Coquelicot.
From Backproof Require Import Derivative.
Local Open Scope R_scope.

Definition expm1 x := exp x - 1.
Definition log1p x := ln (1 + x).
Definition rsqrt x := / sqrt x.
Definition tanh x := (exp x - exp (- x)) / (exp x + exp (- x)).
Definition sigmoid x := / (1 + exp (- x)).
Definition erf_scale := 2 / sqrt PI.
Definition erf x := erf_scale * RInt (fun s => exp (- (s * s))) 0 x.
Definition relu x := Rmax x 0.
Definition positive x := if Rlt_dec 0 x then 1 else 0.
Definition sign x := if Rlt_dec 0 x then 1 else if Rlt_dec x 0 then -1 else 0.

(** Two functions that agree near a point have the same derivative there. *)
Lemma near_above (P : R -> Prop) x c : c < x -> (forall y, c < y -> P y) -> locally x P.
Proof.
  intros H HP. assert (E : 0 < x - c) by lra. exists (mkposreal (x - c) E). intros y Hy.
  apply HP. apply Rabs_lt_between' in Hy. simpl in Hy. lra.
Qed.
Lemma near_below (P : R -> Prop) x c : x < c -> (forall y, y < c -> P y) -> locally x P.
Proof.
  intros H HP. assert (E : 0 < c - x) by lra. exists (mkposreal (c - x) E). intros y Hy.
  apply HP. apply Rabs_lt_between' in Hy. simpl in Hy. lra.
Qed.

Theorem exp_slope x : is_derive exp x (exp x).
Proof. apply is_derive_exp. Qed.
Theorem expm1_slope x : is_derive expm1 x (expm1 x + 1).
Proof. unfold expm1. auto_derive; [exact I|]. ring. Qed.
Theorem log_slope x : 0 < x -> is_derive ln x (/ x).
Proof. apply is_derive_ln. Qed.
Theorem log1p_slope x : -1 < x -> is_derive log1p x (/ (x + 1)).
Proof. intros H. unfold log1p. auto_derive; [lra|]. field. lra. Qed.
Theorem sqrt_slope x : 0 < x -> is_derive sqrt x (/ (sqrt x + sqrt x)).
Proof.
  intros H. apply (d_eq (a := / (2 * sqrt x))); [f_equal; ring|].
  apply is_derive_Reals. now apply derivable_pt_lim_sqrt.
Qed.
Theorem rsqrt_slope x : 0 < x -> is_derive rsqrt x (- (rsqrt x * / (x + x))).
Proof.
  intros H. assert (S : 0 < sqrt x) by now apply sqrt_lt_R0. unfold rsqrt.
  apply (d_eq (a := - (/ (sqrt x + sqrt x)) / (sqrt x) ^ 2)).
  - replace (sqrt x ^ 2) with x by (simpl; rewrite Rmult_1_r; symmetry; apply sqrt_sqrt; lra). field. split; lra.
  - apply (is_derive_inv sqrt x); [now apply sqrt_slope|lra].
Qed.
Theorem tanh_slope x : is_derive tanh x (1 - tanh x * tanh x).
Proof.
  unfold tanh. assert (H : exp x + exp (- x) <> 0) by (pose proof (exp_pos (- x)); pose proof (exp_pos x); lra).
  auto_derive; [exact H|]. field. exact H.
Qed.
Theorem sigmoid_slope x : is_derive sigmoid x (sigmoid x * (1 - sigmoid x)).
Proof.
  unfold sigmoid. assert (H : 1 + exp (- x) <> 0) by (pose proof (exp_pos (- x)); lra).
  auto_derive; [exact H|]. field. exact H.
Qed.
Theorem erf_slope x : is_derive erf x (erf_scale * exp (- (x * x))).
Proof.
  assert (C : forall s, continuous (fun s => exp (- (s * s))) s).
  { intros s. apply (ex_derive_continuous (fun s => exp (- (s * s))) s). auto_derive. exact I. }
  unfold erf. apply (d_eq (a := 0 * RInt (fun s => exp (- (s * s))) 0 x + erf_scale * exp (- (x * x)))); [ring|].
  apply (d_mult (fun _ => erf_scale)); [apply d_const|].
  apply (is_derive_RInt (fun s => exp (- (s * s))) (fun u => RInt (fun s => exp (- (s * s))) 0 u) 0 x); [|apply C].
  apply filter_forall. intros b. apply (RInt_correct (fun s => exp (- (s * s))) 0 b).
  apply (ex_RInt_continuous (fun s => exp (- (s * s)))). intros z _. apply C.
Qed.
Theorem sin_slope x : is_derive sin x (cos x).
Proof. apply is_derive_Reals. apply derivable_pt_lim_sin. Qed.
Theorem cos_slope x : is_derive cos x (- sin x).
Proof. apply is_derive_Reals. apply derivable_pt_lim_cos. Qed.
Theorem relu_slope x : x <> 0 -> is_derive relu x (positive x).
Proof.
  intros H. unfold positive. destruct (Rlt_dec 0 x) as [P|P].
  - apply (d_near (fun y => y)); [|apply d_id].
    apply (near_above _ x 0 P). intros y Hy. unfold relu. rewrite Rmax_left; lra.
  - apply (d_near (fun _ => 0)); [|apply d_const].
    apply (near_below _ x 0); [lra|]. intros y Hy. unfold relu. rewrite Rmax_right; lra.
Qed.
Theorem abs_slope x : x <> 0 -> is_derive Rabs x (sign x).
Proof.
  intros H. unfold sign. destruct (Rlt_dec 0 x) as [P|P].
  - apply (d_near (fun y => y)); [|apply d_id].
    apply (near_above _ x 0 P). intros y Hy. rewrite Rabs_pos_eq; lra.
  - destruct (Rlt_dec x 0) as [Q|Q]; [|lra].
    apply (d_near (fun y => - y)); [|exact (d_opp (fun y => y) x 1 (d_id x))].
    apply (near_below _ x 0 Q). intros y Hy. rewrite Rabs_left; lra.
Qed.
Theorem sign_slope x : x <> 0 -> is_derive sign x 0.
Proof.
  intros H. apply (d_near (fun _ => sign x)); [|apply d_const].
  destruct (Rlt_dec 0 x) as [P|P].
  - apply (near_above _ x 0 P). intros y Hy. unfold sign.
    destruct (Rlt_dec 0 x), (Rlt_dec 0 y); lra.
  - apply (near_below _ x 0); [lra|]. intros y Hy. unfold sign.
    destruct (Rlt_dec 0 x), (Rlt_dec 0 y), (Rlt_dec x 0), (Rlt_dec y 0); lra.
Qed.

(** * Two variables: p and q are the slopes of f at (a, b) along every differentiable path *)
Definition slopes2 (f p q : R -> R -> R) (a b : R) : Prop :=
  forall (x y : R -> R) (t dx dy : R), x t = a -> y t = b -> is_derive x t dx -> is_derive y t dy ->
  is_derive (fun u => f (x u) (y u)) t (p a b * dx + q a b * dy).

Theorem add_slopes a b : slopes2 Rplus (fun _ _ => 1) (fun _ _ => 1) a b.
Proof. intros x y t dx dy <- <- Hx Hy. apply (d_eq (a := dx + dy)); [ring|]. now apply (d_plus x y). Qed.
Theorem sub_slopes a b : slopes2 (fun a b => a + - b) (fun _ _ => 1) (fun _ _ => - (1)) a b.
Proof.
  intros x y t dx dy <- <- Hx Hy. apply (d_eq (a := dx + - dy)); [ring|].
  apply (d_plus x (fun u => - y u)); [exact Hx|exact (d_opp y t dy Hy)].
Qed.
Theorem mul_slopes a b : slopes2 Rmult (fun _ b => b) (fun a _ => a) a b.
Proof. intros x y t dx dy <- <- Hx Hy. apply (d_eq (a := dx * y t + x t * dy)); [ring|]. now apply (d_mult x y). Qed.
Theorem div_slopes a b : b <> 0 -> slopes2 (fun a b => a * / b) (fun _ b => / b) (fun a b => - (a * / b * / b)) a b.
Proof.
  intros Hb x y t dx dy <- <- Hx Hy.
  apply (d_eq (a := dx * / y t + x t * (- dy / (y t) ^ 2))); [field; exact Hb|].
  apply (d_mult x (fun u => / y u)); [exact Hx|]. now apply (is_derive_inv y).
Qed.
(** a^b for a > 0: both slopes. *)
Theorem pow_slopes a b : 0 < a ->
  slopes2 Rpower (fun a b => b * Rpower a (b - 1)) (fun a b => Rpower a b * ln a) a b.
Proof.
  intros Ha x y t dx dy Ex Ey Hx Hy. unfold Rpower at 1.
  apply (d_eq (a := exp (y t * ln (x t)) * (dy * ln (x t) + y t * (/ x t * dx)))).
  - rewrite Ex, Ey. unfold Rpower. rewrite Rmult_minus_distr_r, Rmult_1_l. unfold Rminus at 1.
    rewrite exp_plus, exp_Ropp, exp_ln by exact Ha. field. lra.
  - apply (d_comp exp (fun u => y u * ln (x u))); [apply exp_slope|].
    apply (d_mult y (fun u => ln (x u))); [exact Hy|].
    apply (d_comp ln x); [apply log_slope; now rewrite Ex|exact Hx].
Qed.
(** a^n for a whole exponent n, anywhere; n is held fixed. *)
Theorem pow_nat_slope n x : is_derive (fun a => a ^ n) x (INR n * x ^ pred n).
Proof. apply is_derive_Reals. apply derivable_pt_lim_pow. Qed.

(** The slopes that the rules use: 1 for the winner, 0 for the other, 1/2 in a tie. *)
Definition wins (a b : R) : R := if Rlt_dec b a then 1 else if Req_EM_T a b then / 2 else 0.
Lemma path_apart (x y : R -> R) (t dx dy : R) : is_derive x t dx -> is_derive y t dy -> y t < x t ->
  locally t (fun u => y u < x u).
Proof.
  intros Hx Hy H.
  assert (C : continuous (fun u => x u + - y u) t).
  { apply (d_continuous (a := dx + - dy)). apply (d_plus x (fun u => - y u)); [exact Hx|exact (d_opp y t dy Hy)]. }
  assert (L : locally (x t + - y t) (fun z => 0 < z)) by (apply (near_above _ _ 0); [lra|auto]).
  apply C in L. unfold filtermap in L. revert L. apply filter_imp. intros u Hu. lra.
Qed.
Theorem maximum_slopes a b : a <> b -> slopes2 Rmax wins (fun a b => wins b a) a b.
Proof.
  intros N x y t dx dy Ex Ey Hx Hy. unfold wins. destruct (Rlt_dec b a) as [P|P].
  - destruct (Rlt_dec a b); [lra|]. destruct (Req_EM_T b a); [lra|].
    apply (d_eq (a := dx)); [ring|]. apply (d_near x); [|exact Hx].
    assert (L : locally t (fun u => y u < x u)) by (eapply path_apart; eauto; lra).
    revert L. apply filter_imp. intros u Hu. rewrite Rmax_left; lra.
  - destruct (Req_EM_T a b); [lra|]. destruct (Rlt_dec a b); [|lra].
    apply (d_eq (a := dy)); [ring|]. apply (d_near y); [|exact Hy].
    assert (L : locally t (fun u => x u < y u)) by (eapply path_apart; eauto; lra).
    revert L. apply filter_imp. intros u Hu. rewrite Rmax_right; lra.
Qed.
Theorem minimum_slopes a b : a <> b -> slopes2 Rmin (fun a b => wins b a) wins a b.
Proof.
  intros N x y t dx dy Ex Ey Hx Hy. unfold wins. destruct (Rlt_dec a b) as [P|P].
  - destruct (Rlt_dec b a); [lra|]. destruct (Req_EM_T a b); [lra|].
    apply (d_eq (a := dx)); [ring|]. apply (d_near x); [|exact Hx].
    assert (L : locally t (fun u => x u < y u)) by (eapply path_apart; eauto; lra).
    revert L. apply filter_imp. intros u Hu. rewrite Rmin_left; lra.
  - destruct (Req_EM_T b a); [lra|]. destruct (Rlt_dec b a); [|lra].
    apply (d_eq (a := dy)); [ring|]. apply (d_near y); [|exact Hy].
    assert (L : locally t (fun u => y u < x u)) by (eapply path_apart; eauto; lra).
    revert L. apply filter_imp. intros u Hu. rewrite Rmin_right; lra.
Qed.
