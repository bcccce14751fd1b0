(** Every primitive as a node, and one theorem for each: its vjp is the transpose of its jvp.

    The carrier is any commutative semiring. The named functions (exp, a reciprocal, an order ...) are arbitrary functions
    on it, so that a theorem rests on the form of the rule alone; that the rules are the derivatives is another
    theorem, over the reals, in PrimitivesReal.v. A slope is written as the rule writes it: exp's is its own result. *)
Require Import List Arith Lia Ring NArith ZArith.
Import ListNotations.
From Backproof Require Import Tensor Graph Adjoint Table Index.
Set Implicit Arguments.

Fixpoint dims_of (s : shape) : dims := match s with scalar => [] | dim n s => N.of_nat n :: dims_of s end.

Section Primitives.
Variable R : Type.
Variables (r0 r1 : R) (radd rmul : R -> R -> R).
Variable opp : R -> R.
Variable inv : R -> R.
Variable D : Type.
Hypothesis SR : semi_ring_theory r0 r1 radd rmul (@eq R).
Infix "+" := radd.
Infix "*" := rmul.
Notation "0" := r0.
Notation "1" := r1.
Notation "- a" := (opp a).
Notation "a - b" := (a + - b).
Notation ctx := (ctx R).
Notation node := (node R D).
Notation adjoint := (adjoint r0 radd rmul).
Notation elementwise := (n_elementwise D SR).

(** * Elementwise *)
Definition unary (f : R -> R) (l : list R) : R := match l with [x] => f x | _ => 0 end.
Definition binary (f : R -> R -> R) (l : list R) : R := match l with [a; b] => f a b | _ => 0 end.
Definition ternary (f : R -> R -> R -> R) (l : list R) : R := match l with [a; b; c] => f a b c | _ => 0 end.
(** y = f x, with dy/dx = p x. *)
Definition n_unary G s (f p : R -> R) (a : idx G s) : node G s := elementwise (unary f) [Some (unary p)] [a].
Definition n_binary G s (f p q : R -> R -> R) (a b : idx G s) : node G s :=
  elementwise (binary f) [Some (binary p); Some (binary q)] [a; b].

Section Elementwise.
Variables (G : list shape) (s : shape).
Variables (f g : R -> R) (h : R -> R -> R).

Definition n_add := @n_binary G s radd (fun _ _ => 1) (fun _ _ => 1).
Definition n_sub := @n_binary G s (fun a b => a - b) (fun _ _ => 1) (fun _ _ => - (1)).
Definition n_mul := @n_binary G s rmul (fun _ b => b) (fun a _ => a).
(** inv is the reciprocal: dy/da = 1/b and dy/db = -y/b. *)
Definition n_div := @n_binary G s (fun a b => a * inv b) (fun _ b => inv b) (fun a b => - (a * inv b * inv b)).
Definition n_neg := @n_unary G s opp (fun _ => - (1)).
(** power is a^b; [base] its slope in a, [exponent] its slope in b. *)
Definition n_pow (power base exponent : R -> R -> R) := @n_binary G s power base exponent.
Definition n_exp (exp : R -> R) := @n_unary G s exp exp.
Definition n_expm1 (expm1 : R -> R) := @n_unary G s expm1 (fun x => expm1 x + 1).
Definition n_log (log : R -> R) := @n_unary G s log inv.
Definition n_log1p (log1p : R -> R) := @n_unary G s log1p (fun x => inv (x + 1)).
Definition n_sqrt (sqrt : R -> R) := @n_unary G s sqrt (fun x => inv (sqrt x + sqrt x)).
Definition n_rsqrt (rsqrt : R -> R) := @n_unary G s rsqrt (fun x => - (rsqrt x * inv (x + x))).
Definition n_tanh (tanh : R -> R) := @n_unary G s tanh (fun x => 1 - tanh x * tanh x).
Definition n_sigmoid (sigmoid : R -> R) := @n_unary G s sigmoid (fun x => sigmoid x * (1 - sigmoid x)).
(** k is 2/sqrt(pi). *)
Definition n_erf (erf exp : R -> R) (k : R) := @n_unary G s erf (fun x => k * exp (- (x * x))).
Definition n_sin (sin cos : R -> R) := @n_unary G s sin cos.
Definition n_cos (cos sin : R -> R) := @n_unary G s cos (fun x => - sin x).
(** positive is 1 above 0 and 0 elsewhere; sign is -1, 0 or 1. *)
Definition n_relu (relu positive : R -> R) := @n_unary G s relu positive.
Definition n_abs (abs sign : R -> R) := @n_unary G s abs sign.
(** The slopes of an extreme: 1 for the winner, 0 for the other, 1/2 each in a tie; here, any two functions. *)
Definition n_maximum (max left right : R -> R -> R) := @n_binary G s max left right.
Definition n_minimum (min left right : R -> R -> R) := @n_binary G s min left right.
(** The condition has no derivative; the branch that is taken has slope 1. *)
Definition n_where (holds : R -> bool) (c a b : idx G s) : node G s :=
  elementwise (ternary (fun c a b => if holds c then a else b))
    [None; Some (ternary (fun c _ _ => if holds c then 1 else 0)); Some (ternary (fun c _ _ => if holds c then 0 else 1))]
    [c; a; b].
Definition n_cast (a : idx G s) : node G s := n_unary (fun x => x) (fun _ => 1) a.
End Elementwise.

(** * Structure *)
(** A table whose every coefficient is 1, and one whose coefficients are given by the indices that it relates. *)
Definition plain (T : triples) : table R := map (fun e => let '(i, j, k) := e in (i, 1, k)) T.
Definition weighed (T : triples) (w : N -> N -> R) : table R := map (fun e => let '(i, j, k) := e in (i, w i k, k)) T.

Definition rearranged G s t (T : D -> ctx G -> triples) (a : idx G s) : node G t :=
  n_linear SR t [mksource a (fun d x => plain (T d x))].

Section Structure.
Variables (G : list shape) (s t : shape).
Notation fixed T := (@rearranged G s t (fun _ _ => T)).
Let x := dims_of s.
Let y := dims_of t.
(** Integers from the environment, or computed from the point. *)
Variable index : D -> ctx G -> list Z.

Definition n_reshape := fixed (reshape_table x).
Definition n_transpose axes := fixed (transpose_table x axes).
Definition n_broadcast axes := fixed (broadcast_table x y axes).
Definition n_slice start step := fixed (slice_table x y start step).
Definition n_pad low interior := fixed (pad_table x y low interior).
Definition n_flip axes := fixed (flip_table x axes).
Definition n_sum axes := fixed (sum_table x axes).
Definition n_cumsum axis reverse := fixed (cumsum_table x axis reverse).
Definition n_sum_pool window stride dilation low := fixed (sum_pool_table x y window stride dilation low).
Definition n_gather axis := @rearranged G s t (fun d c => gather_table x axis (index d c)).
Definition n_scatter_add axis := @rearranged G s t (fun d c => scatter_add_table y axis (index d c)).
Definition n_gather_along axis := @rearranged G s t (fun d c => gather_along_table x axis (at_axis y axis) (index d c)).
Definition n_scatter_along axis := @rearranged G s t (fun d c => scatter_along_table y axis (at_axis x axis) (index d c)).
(** Any number of inputs, each with its own table: where it begins along the axis. *)
Definition n_concat (inputs : list {u : shape & (idx G u * N)%type}) axis : node G t :=
  n_linear SR t (map (fun p => mksource (fst (projT2 p))
    (fun _ _ => plain (concat_table (dims_of (projT1 p)) y axis (snd (projT2 p))))) inputs).

(** The winners of windows are computed from the point: forward and derivative read the same places. *)
Definition n_max_pool (planes : N) (winners : D -> ctx G -> list Z) :=
  @rearranged G s t (fun d c =>
    gather_along_table [planes; (volume x / planes)%N] 1%N (volume y / planes)%N (winners d c)).

(** Reductions that are not linear: any forward function, and coefficients computed from the point. *)
Definition n_reduction (F : D -> ctx G -> Tensor.tensor R t) (weight : D -> ctx G -> N -> N -> R) axes (a : idx G s) : node G t :=
  n_tabled SR t F [mksource a (fun d c => weighed (sum_table x axes) (weight d c))].
(** The weights are 1/k at each of the k winners of an extreme, and the product of all the others in a product. *)
Definition n_max := n_reduction.
Definition n_min := n_reduction.
Definition n_prod := n_reduction.
End Structure.

(** exp (x_i - y_k), from the result itself. *)
Definition n_logsumexp G s t (exp : R -> R) (logsumexp : Tensor.tensor R s -> Tensor.tensor R t) axes (a : idx G s) : node G t :=
  @n_reduction G s t (fun _ c => logsumexp (cget R a c))
    (fun _ c i k => exp (flat r0 s (cget R a c) i - flat r0 t (logsumexp (cget R a c)) k)) axes a.

(** * Products *)
Definition n_dot_general G sa sb t contract_a contract_b batch_a batch_b (a : idx G sa) (b : idx G sb) : node G t :=
  n_bilinear D SR t (dot_general_table (dims_of sa) (dims_of sb) contract_a contract_b batch_a batch_b) a b.
Definition n_conv G sx sw t stride input_dilation window_dilation low groups (a : idx G sx) (b : idx G sw) : node G t :=
  n_bilinear D SR t (conv_table (dims_of sx) (dims_of sw) (dims_of t) stride input_dilation window_dilation low groups) a b.

(** * Without derivative *)
Definition n_stop_gradient G s (a : idx G s) : node G s := @n_opaque R r0 radd rmul D G s (fun _ c => cget R a c).
Definition n_sign G s (sign : R -> R) (a : idx G s) : node G s := @n_opaque R r0 radd rmul D G s (fun _ c => tmap sign s (cget R a c)).

(** * One theorem for each *)
Section Theorems.
Variables (G : list shape) (s t : shape).
Implicit Types a b c : idx G s.

Theorem add_adjoint a b : adjoint (@n_add G s a b).
Proof. apply elementwise_adjoint. Qed.
Theorem sub_adjoint a b : adjoint (@n_sub G s a b).
Proof. apply elementwise_adjoint. Qed.
Theorem mul_adjoint a b : adjoint (@n_mul G s a b).
Proof. apply elementwise_adjoint. Qed.
Theorem div_adjoint a b : adjoint (@n_div G s a b).
Proof. apply elementwise_adjoint. Qed.
Theorem neg_adjoint a : adjoint (@n_neg G s a).
Proof. apply elementwise_adjoint. Qed.
Theorem pow_adjoint power base exponent a b : adjoint (@n_pow G s power base exponent a b).
Proof. apply elementwise_adjoint. Qed.
Theorem exp_adjoint exp a : adjoint (@n_exp G s exp a).
Proof. apply elementwise_adjoint. Qed.
Theorem expm1_adjoint expm1 a : adjoint (@n_expm1 G s expm1 a).
Proof. apply elementwise_adjoint. Qed.
Theorem log_adjoint log a : adjoint (@n_log G s log a).
Proof. apply elementwise_adjoint. Qed.
Theorem log1p_adjoint log1p a : adjoint (@n_log1p G s log1p a).
Proof. apply elementwise_adjoint. Qed.
Theorem sqrt_adjoint sqrt a : adjoint (@n_sqrt G s sqrt a).
Proof. apply elementwise_adjoint. Qed.
Theorem rsqrt_adjoint rsqrt a : adjoint (@n_rsqrt G s rsqrt a).
Proof. apply elementwise_adjoint. Qed.
Theorem tanh_adjoint tanh a : adjoint (@n_tanh G s tanh a).
Proof. apply elementwise_adjoint. Qed.
Theorem sigmoid_adjoint sigmoid a : adjoint (@n_sigmoid G s sigmoid a).
Proof. apply elementwise_adjoint. Qed.
Theorem erf_adjoint erf exp k a : adjoint (@n_erf G s erf exp k a).
Proof. apply elementwise_adjoint. Qed.
Theorem sin_adjoint sin cos a : adjoint (@n_sin G s sin cos a).
Proof. apply elementwise_adjoint. Qed.
Theorem cos_adjoint cos sin a : adjoint (@n_cos G s cos sin a).
Proof. apply elementwise_adjoint. Qed.
Theorem relu_adjoint relu positive a : adjoint (@n_relu G s relu positive a).
Proof. apply elementwise_adjoint. Qed.
Theorem abs_adjoint abs sign a : adjoint (@n_abs G s abs sign a).
Proof. apply elementwise_adjoint. Qed.
Theorem maximum_adjoint max left right a b : adjoint (@n_maximum G s max left right a b).
Proof. apply elementwise_adjoint. Qed.
Theorem minimum_adjoint min left right a b : adjoint (@n_minimum G s min left right a b).
Proof. apply elementwise_adjoint. Qed.
Theorem where_adjoint holds c a b : adjoint (@n_where G s holds c a b).
Proof. apply elementwise_adjoint. Qed.
Theorem cast_adjoint a : adjoint (@n_cast G s a).
Proof. apply elementwise_adjoint. Qed.

Theorem reshape_adjoint a : adjoint (@n_reshape G s t a).
Proof. apply linear_adjoint. Qed.
Theorem transpose_adjoint axes a : adjoint (@n_transpose G s t axes a).
Proof. apply linear_adjoint. Qed.
Theorem broadcast_adjoint axes a : adjoint (@n_broadcast G s t axes a).
Proof. apply linear_adjoint. Qed.
Theorem slice_adjoint start step a : adjoint (@n_slice G s t start step a).
Proof. apply linear_adjoint. Qed.
Theorem pad_adjoint low interior a : adjoint (@n_pad G s t low interior a).
Proof. apply linear_adjoint. Qed.
Theorem flip_adjoint axes a : adjoint (@n_flip G s t axes a).
Proof. apply linear_adjoint. Qed.
Theorem concat_adjoint inputs axis : adjoint (@n_concat G t inputs axis).
Proof. apply linear_adjoint. Qed.
Theorem sum_adjoint axes a : adjoint (@n_sum G s t axes a).
Proof. apply linear_adjoint. Qed.
Theorem cumsum_adjoint axis reverse a : adjoint (@n_cumsum G s t axis reverse a).
Proof. apply linear_adjoint. Qed.
Theorem sum_pool_adjoint window stride dilation low a : adjoint (@n_sum_pool G s t window stride dilation low a).
Proof. apply linear_adjoint. Qed.
Theorem gather_adjoint index axis a : adjoint (@n_gather G s t index axis a).
Proof. apply linear_adjoint. Qed.
Theorem scatter_add_adjoint index axis a : adjoint (@n_scatter_add G s t index axis a).
Proof. apply linear_adjoint. Qed.
Theorem gather_along_adjoint index axis a : adjoint (@n_gather_along G s t index axis a).
Proof. apply linear_adjoint. Qed.
Theorem scatter_along_adjoint index axis a : adjoint (@n_scatter_along G s t index axis a).
Proof. apply linear_adjoint. Qed.
Theorem max_pool_adjoint planes winners a : adjoint (@n_max_pool G s t planes winners a).
Proof. apply linear_adjoint. Qed.

Theorem max_adjoint max winners axes a : adjoint (@n_max G s t max winners axes a).
Proof. apply tabled_adjoint. Qed.
Theorem min_adjoint min winners axes a : adjoint (@n_min G s t min winners axes a).
Proof. apply tabled_adjoint. Qed.
Theorem prod_adjoint prod others axes a : adjoint (@n_prod G s t prod others axes a).
Proof. apply tabled_adjoint. Qed.
Theorem logsumexp_adjoint exp logsumexp axes a : adjoint (@n_logsumexp G s t exp logsumexp axes a).
Proof. apply tabled_adjoint. Qed.

Theorem dot_general_adjoint ca cb ba bb sa sb (a : idx G sa) (b : idx G sb) : adjoint (@n_dot_general G sa sb t ca cb ba bb a b).
Proof. apply bilinear_adjoint. Qed.
Theorem conv_adjoint stride di dw low groups sx sw (a : idx G sx) (b : idx G sw) : adjoint (@n_conv G sx sw t stride di dw low groups a b).
Proof. apply bilinear_adjoint. Qed.

Theorem stop_gradient_adjoint a : adjoint (@n_stop_gradient G s a).
Proof. apply (opaque_adjoint SR). Qed.
Theorem sign_adjoint sign a : adjoint (@n_sign G s sign a).
Proof. apply (opaque_adjoint SR). Qed.
End Theorems.
End Primitives.
