(** Over the reals: what it means that a jvp is the derivative, and what follows for graphs.

    A node is right at a point when, along every path that passes through the point and is differentiable there, its value
    is differentiable with its jvp as derivative. (In finitely many dimensions this is differentiability in the sense of
    Hadamard, which there is the same as Frechet's; the form proved is the one about paths.) *)
Require Import Reals List Lra Ring FunctionalExtensionality.
Import ListNotations.
From Coquelicot Require Import Coquelicot.
From Backproof Require Import Tensor Graph Adjoint.
Set Implicit Arguments.
Local Open Scope R_scope.

Lemma RSR : semi_ring_theory 0 1 Rplus Rmult (@eq R).
Proof. constructor; intros; ring. Qed.

(** * Coquelicot's rules for real functions *)
Lemma d_const (c t : R) : is_derive (fun _ : R => c) t (0 : R).
Proof. exact (@is_derive_const R_AbsRing R_NormedModule c t). Qed.
Lemma d_id (t : R) : is_derive (fun u : R => u) t (1 : R).
Proof. exact (@is_derive_id R_AbsRing t). Qed.
Lemma d_plus (f g : R -> R) (t a b : R) : is_derive f t a -> is_derive g t b -> is_derive (fun u => f u + g u) t (a + b).
Proof. exact (@is_derive_plus R_AbsRing R_NormedModule f g t a b). Qed.
Lemma d_opp (f : R -> R) (t a : R) : is_derive f t a -> is_derive (fun u => - f u) t (- a).
Proof. exact (@is_derive_opp R_AbsRing R_NormedModule f t a). Qed.
Lemma d_mult (f g : R -> R) (t a b : R) : is_derive f t a -> is_derive g t b ->
  is_derive (fun u => f u * g u) t (a * g t + f t * b).
Proof. intros H1 H2. exact (@is_derive_mult R_AbsRing f g t a b H1 H2 Rmult_comm). Qed.
Lemma d_comp (f g : R -> R) (t a b : R) : is_derive f (g t) a -> is_derive g t b -> is_derive (fun u => f (g u)) t (a * b).
Proof. intros H1 H2. rewrite Rmult_comm. exact (@is_derive_comp R_AbsRing R_NormedModule f g t a b H1 H2). Qed.
Lemma d_eq (f : R -> R) (t a b : R) : a = b -> is_derive f t a -> is_derive f t b.
Proof. now intros ->. Qed.
Lemma d_near (f g : R -> R) (t a : R) : locally t (fun u => f u = g u) -> is_derive f t a -> is_derive g t a.
Proof. intros H. exact (is_derive_ext_loc f g t a H). Qed.
Lemma d_continuous (f : R -> R) (t a : R) : is_derive f t a -> continuous f t.
Proof. intros H. apply (ex_derive_continuous f t). now exists a. Qed.
Arguments d_plus : clear implicits.
Arguments d_opp : clear implicits.
Arguments d_mult : clear implicits.
Arguments d_comp : clear implicits.
Arguments d_near : clear implicits.

Section Derivative.
Variable D : Type.
Notation tensor := (tensor R).
Notation ctx := (ctx R).
Notation tadd := (tadd Rplus).
Notation tmul := (tmul Rmult).
Notation tzero := (tzero 0).
Notation tscale k := (tmap (Rmult k)).
Notation cdot := (cdot 0 Rplus Rmult).
Notation node := (node R D).
Notation graph := (graph R D).

(** * Derivatives of tensors and contexts along a path, entry by entry *)
Fixpoint vder A (P : (R -> A) -> R -> A -> Prop) n : (R -> vec A n) -> R -> vec A n -> Prop :=
  match n return (R -> vec A n) -> R -> vec A n -> Prop with
  | O => fun _ _ _ => True
  | S n => fun F t d => P (fun u => fst (F u)) t (fst d) /\ vder P n (fun u => snd (F u)) t (snd d)
  end.
Fixpoint tder (s : shape) : (R -> tensor s) -> R -> tensor s -> Prop :=
  match s return (R -> tensor s) -> R -> tensor s -> Prop with
  | scalar => fun F t d => is_derive F t d
  | dim n s => vder (tder s) n
  end.
Fixpoint cder (G : list shape) : (R -> ctx G) -> R -> ctx G -> Prop :=
  match G return (R -> ctx G) -> R -> ctx G -> Prop with
  | [] => fun _ _ _ => True
  | s :: G => fun F t d => tder s (fun u => fst (F u)) t (fst d) /\ cder G (fun u => snd (F u)) t (snd d)
  end.

Lemma tder_const s v t : tder s (fun _ => v) t (tzero s).
Proof.
  induction s as [|n s IHs]; [exact (d_const v t)|].
  unfold Tensor.tzero; cbn [tder tfill]. induction n; [exact I|]. split; [apply IHs|apply IHn].
Qed.
Lemma tder_add s F G t dF dG : tder s F t dF -> tder s G t dG -> tder s (fun u => tadd s (F u) (G u)) t (tadd s dF dG).
Proof.
  revert F G dF dG; induction s as [|n s IHs].
  - intros F G dF dG H1 H2. exact (d_plus F G t dF dG H1 H2).
  - induction n; [exact (fun _ _ _ _ _ _ => I)|].
    intros F G dF dG [H1 H2] [H3 H4]. split.
    + exact (IHs (fun u => fst (F u)) (fun u => fst (G u)) (fst dF) (fst dG) H1 H3).
    + exact (IHn (fun u => snd (F u)) (fun u => snd (G u)) (snd dF) (snd dG) H2 H4).
Qed.
Lemma tder_near s F G t dF : locally t (fun u => F u = G u) -> tder s F t dF -> tder s G t dF.
Proof.
  revert F G dF; induction s as [|n s IHs].
  - intros F G dF H. exact (d_near F G t dF H).
  - induction n; [exact (fun _ _ _ _ _ => I)|].
    intros F G dF H [H1 H2]. split.
    + apply (IHs (fun u => fst (F u)) (fun u => fst (G u))); [|exact H1].
      revert H; apply filter_imp; intros u E; now rewrite E.
    + apply (IHn (fun u => snd (F u)) (fun u => snd (G u))); [|exact H2].
      revert H; apply filter_imp; intros u E; now rewrite E.
Qed.
Lemma tder_ext s F G t dF : (forall u, F u = G u) -> tder s F t dF -> tder s G t dF.
Proof. intros H. now rewrite (functional_extensionality F G H). Qed.
Lemma cder_get G s (i : idx G s) X t dX : cder G X t dX -> tder s (fun u => cget R i (X u)) t (cget R i dX).
Proof.
  revert X dX; induction i; intros X dX [H1 H2].
  - exact H1.
  - exact (IHi (fun u => snd (X u)) (snd dX) H2).
Qed.

(** * The theorem about graphs *)
Definition node_der G t (nd : node G t) (d : D) (x : ctx G) : Prop :=
  forall (X : R -> ctx G) t0 dX, X t0 = x -> cder G X t0 dX -> tder t (fun u => fwd nd d (X u)) t0 (jvp nd d x dX).
Fixpoint graph_der Gam ss (g : graph Gam ss) (d : D) (x : ctx Gam) : Prop :=
  match g with
  | gnil => True
  | gsnoc _ _ g nd => graph_der g d x /\ node_der nd d (eval g d x)
  end.

(** Forward mode is the derivative along every differentiable path, if each node's is at its own point. *)
Theorem jvp_is_derivative Gam ss (g : graph Gam ss) d x :
  graph_der g d x -> forall X t0 dX, X t0 = x -> cder Gam X t0 dX ->
  cder (ss ++ Gam) (fun u => eval g d (X u)) t0 (jvpCtx g d x dX).
Proof.
  induction g; simpl; auto. intros [Hg Hn] X t0 dX HX Hd. split.
  - apply (Hn (fun u => eval g d (X u))). now rewrite HX. now apply IHg.
  - now apply IHg.
Qed.

(** The straight path x + u * dx. *)
Fixpoint cline G (x dx : ctx G) (u : R) : ctx G :=
  match G return ctx G -> ctx G -> ctx G with
  | [] => fun _ _ => tt
  | s :: G => fun x dx => (tadd s (fst x) (tscale u s (fst dx)), cline G (snd x) (snd dx) u)
  end x dx.
Lemma tscale0 s (a : tensor s) : tscale 0 s a = tzero s.
Proof. unfold Tensor.tzero. revert a; induction s as [|n s IHs]; simpl; intros. ring. induction n; simpl; auto. now rewrite IHs, IHn. Qed.
Lemma tder_line s (x dx : tensor s) : tder s (fun u => tadd s x (tscale u s dx)) 0 dx.
Proof.
  unfold Tensor.tadd. revert x dx; induction s as [|n s IHs].
  - intros x dx. cbn [tder tzip tmap].
    apply (d_eq (a := 0 + (1 * dx + 0 * 0))); [ring|].
    apply (d_plus (fun _ => x)); [apply d_const|].
    exact (d_mult (fun u => u) (fun _ => dx) 0 1 0 (d_id 0) (d_const dx 0)).
  - induction n; [exact (fun _ _ => I)|]. intros x dx. split.
    + exact (IHs (fst x) (fst dx)).
    + exact (IHn (snd x) (snd dx)).
Qed.
Lemma cline0 G (x dx : ctx G) : cline G x dx 0 = x.
Proof. induction G; destruct x; simpl; auto. now rewrite tscale0, (tadd_zero_r RSR), IHG. Qed.
Lemma cder_line G (x dx : ctx G) : cder G (cline G x dx) 0 dx.
Proof. induction G as [|s G IH]; simpl; auto. split; [apply tder_line|apply IH]. Qed.

(** For a scalar value of the graph, backpropagation with seed 1 is its gradient: in every direction dx,
    d/du out (x + u dx) at 0 is <dx, gradient>. *)
Theorem backprop_is_gradient Gam ss (g : graph Gam ss) (i : idx (ss ++ Gam) scalar) d x dx :
  all_adjoint 0 Rplus Rmult g -> graph_der g d x ->
  is_derive (fun u => cget R i (eval g d (cline Gam x dx u))) 0
            (cdot Gam dx (backprop 0 Rplus g d x (csingle 0 i (1 : tensor scalar)))).
Proof.
  intros Ha Hg.
  pose proof (backprop_out RSR g i Ha d x dx (1 : tensor scalar)) as E.
  cbn [Tensor.dot] in E. rewrite Rmult_1_r in E. rewrite <- E.
  pose proof (jvp_is_derivative g d Hg (cline Gam x dx) 0 dx (cline0 Gam x dx) (cder_line Gam x dx)) as H.
  exact (cder_get i _ 0 _ H).
Qed.
(** The same along any differentiable path through x, not only straight ones. *)
Theorem backprop_is_gradient_on_paths Gam ss (g : graph Gam ss) (i : idx (ss ++ Gam) scalar) d x :
  all_adjoint 0 Rplus Rmult g -> graph_der g d x -> forall X t0 dX, X t0 = x -> cder Gam X t0 dX ->
  is_derive (fun u => cget R i (eval g d (X u))) t0
            (cdot Gam dX (backprop 0 Rplus g d x (csingle 0 i (1 : tensor scalar)))).
Proof.
  intros Ha Hg X t0 dX HX HdX.
  pose proof (backprop_out RSR g i Ha d x dX (1 : tensor scalar)) as E.
  cbn [Tensor.dot] in E. rewrite Rmult_1_r in E. rewrite <- E.
  exact (cder_get i _ t0 _ (jvp_is_derivative g d Hg X t0 dX HX HdX)).
Qed.
End Derivative.
