(** The run-time tape: an untyped, dense array of gradients and one loop that walks it backwards, with every check of
    bounds and shapes that a run time makes. The theorems: the loop never errs, and it computes [backpropAll]. *)
Require Import List Arith Lia Ring Eqdep_dec.
Import ListNotations.
From Backproof Require Import Tensor Graph.
Set Implicit Arguments.

Inductive result (A : Type) := Ok (a : A) | Err (code : nat).
Arguments Err {A} code.

Fixpoint update A (l : list A) (i : nat) (a : A) : list A :=
  match l, i with [], _ => [] | _ :: l, O => a :: l | b :: l, S i => b :: update l i a end.

Section Tape.
Variable R : Type.
Variable radd : R -> R -> R.
Variable D : Type.
Notation tensor := (tensor R).
Notation ctx := (ctx R).
Notation tadd := (tadd radd).
Notation node := (node R D).
Notation graph := (graph R D).
Notation contrib := (contrib R).

(** * The machine *)
Definition anyT := {s : shape & tensor s}.
Definition mk s (v : tensor s) : anyT := existT _ s v.
Record tnode := { value : anyT; backward : anyT -> result (list (nat * anyT)) }.
Definition cast s t (e : s = t) (v : tensor s) : tensor t := eq_rect s tensor v t e.

(** grads[p] += g: error 1 out of bounds, error 2 on a wrong shape. *)
Definition add_grad (grads : list anyT) (p : nat) (g : anyT) : result (list anyT) :=
  match nth_error grads p with
  | None => Err 1
  | Some old =>
      match shape_dec (projT1 g) (projT1 old) with
      | left e => Ok (update grads p (mk _ (tadd _ (projT2 old) (cast e (projT2 g)))))
      | right _ => Err 2
      end
  end.
Fixpoint add_all (l : list (nat * anyT)) (grads : list anyT) : result (list anyT) :=
  match l with
  | [] => Ok grads
  | (p, g) :: l => match add_grad grads p g with Ok grads => add_all l grads | Err e => Err e end
  end.
(** Error 3: the tape or the array is too short. Error 4: an upstream gradient of a wrong shape. *)
Fixpoint loop (k : nat) (tape : list tnode) (grads : list anyT) : result (list anyT) :=
  match k with
  | O => Ok grads
  | S k =>
      match nth_error tape k, nth_error grads k with
      | Some nd, Some g =>
          match backward nd g with
          | Ok cs => match add_all cs grads with Ok grads => loop k tape grads | Err e => Err e end
          | Err e => Err e
          end
      | _, _ => Err 3
      end
  end.
Definition run_backward tape grads := loop (length tape) tape grads.

(** * From a graph to a tape *)
Fixpoint to_array G : ctx G -> list anyT :=
  match G with [] => fun _ => [] | s :: G => fun c => to_array G (snd c) ++ [mk s (fst c)] end.
Definition leaf_node (v : anyT) := {| value := v; backward := fun _ => Ok [] |}.
Definition erase G (c : contrib G) : nat * anyT := (idn (fst (projT2 c)), mk _ (snd (projT2 c))).
Fixpoint compile Gam ss (g : graph Gam ss) (d : D) (x : ctx Gam) : list tnode :=
  match g with
  | gnil _ _ _ => map leaf_node (to_array Gam x)
  | @gsnoc _ _ _ ss t g nd =>
      compile g d x ++
      [ let c := eval g d x in
        {| value := mk t (fwd nd d c);
           backward := fun up =>
             match shape_dec (projT1 up) t with
             | left e => Ok (map (@erase _) (vjp nd d c (cast e (projT2 up))))
             | right _ => Err 4
             end |} ]
  end.

(** * Book-keeping *)
Lemma len_to_array G (c : ctx G) : length (to_array G c) = length G.
Proof. induction G; simpl; auto. rewrite app_length, IHG; simpl; lia. Qed.
Lemma len_compile Gam ss (g : graph Gam ss) d x : length (compile g d x) = length (ss ++ Gam).
Proof.
  induction g; simpl. now rewrite map_length, len_to_array.
  rewrite app_length, IHg; simpl; lia.
Qed.
Theorem compile_values Gam ss (g : graph Gam ss) d x :
  map value (compile g d x) = to_array _ (eval g d x).
Proof.
  induction g; simpl. rewrite map_map; simpl; apply map_id.
  now rewrite map_app, IHg.
Qed.
Fixpoint shapes G : list shape := match G with [] => [] | s :: G => shapes G ++ [s] end.
Theorem to_array_shapes G (c : ctx G) : map (@projT1 _ _) (to_array G c) = shapes G.
Proof. induction G; simpl; auto. rewrite map_app, IHG; auto. Qed.

Lemma nth_last A (l : list A) a r n : length l = n -> nth_error ((l ++ [a]) ++ r) n = Some a.
Proof. intros <-. rewrite <- app_assoc, nth_error_app2, Nat.sub_diag; auto. Qed.
Lemma update_app1 A (l r : list A) i a : i < length l -> update (l ++ r) i a = update l i a ++ r.
Proof. revert i; induction l; simpl; intros; [lia|]. destruct i; auto. rewrite IHl; auto; lia. Qed.
Lemma update_last A (l : list A) b a n : length l = n -> update (l ++ [b]) n a = l ++ [a].
Proof. intros <-. induction l; simpl; auto. now rewrite IHl. Qed.
Lemma cast_refl s (e : s = s) v : cast e v = v.
Proof. unfold cast. now rewrite <- (eq_rect_eq_dec shape_dec). Qed.

Lemma add_grad_upd G s (i : idx G s) (c : ctx G) (v : tensor s) :
  add_grad (to_array G c) (idn i) (mk s v) = Ok (to_array G (cupd radd i v c)).
Proof.
  induction i as [G s|G s t i IH]; simpl.
  - unfold add_grad. rewrite nth_error_app2 by (now rewrite len_to_array).
    rewrite len_to_array, Nat.sub_diag; simpl.
    destruct (shape_dec s s) as [e|]; [|congruence].
    rewrite cast_refl. f_equal. apply update_last, len_to_array.
  - assert (L : idn i < length (to_array G (snd c))) by (rewrite len_to_array; apply idn_lt).
    specialize (IH (snd c) v). unfold add_grad in *.
    rewrite nth_error_app1 by exact L.
    destruct (nth_error (to_array G (snd c)) (idn i)) as [old|] eqn:E; [|discriminate].
    destruct (shape_dec _ _) as [e|]; [|discriminate].
    rewrite update_app1 by exact L.
    apply (f_equal (fun r => match r with Ok a => a | Err _ => [] end)) in IH; cbv beta iota in IH.
    now rewrite IH.
Qed.
Lemma add_grad_app arr ex p g arr' : add_grad arr p g = Ok arr' -> add_grad (arr ++ ex) p g = Ok (arr' ++ ex).
Proof.
  unfold add_grad. destruct (nth_error arr p) as [old|] eqn:E; [|discriminate].
  assert (L : p < length arr) by (apply nth_error_Some; congruence).
  rewrite nth_error_app1, E by exact L. destruct (shape_dec _ _); [|discriminate].
  intros H; injection H as <-. now rewrite update_app1.
Qed.
Lemma add_all_acc G (l : list (contrib G)) (c : ctx G) ex :
  add_all (map (@erase G) l) (to_array G c ++ ex) = Ok (to_array G (acc radd l c) ++ ex).
Proof.
  revert c; induction l as [|[s [i v]] l IH]; simpl; intros; auto.
  rewrite (add_grad_app _ _ _ _ (add_grad_upd i c v)). apply IH.
Qed.
Lemma loop_leaves (l : list anyT) rest arr k :
  k <= length l -> length l <= length arr -> loop k (map leaf_node l ++ rest) arr = Ok arr.
Proof.
  induction k; simpl; auto; intros.
  rewrite nth_error_app1 by (rewrite map_length; lia).
  destruct (nth_error (map leaf_node l) k) as [nd|] eqn:E.
  2:{ apply nth_error_None in E. rewrite map_length in E; lia. }
  destruct (nth_error arr k) as [a|] eqn:E2.
  2:{ apply nth_error_None in E2; lia. }
  apply nth_error_In, in_map_iff in E. destruct E as (w & <- & _). simpl.
  apply IHk; lia.
Qed.
Lemma loop_in_place Gam ss (g : graph Gam ss) d x :
  forall seed rest ex,
  loop (length (ss ++ Gam)) (compile g d x ++ rest) (to_array _ seed ++ ex)
  = Ok (to_array _ (backpropInPlace radd g d (eval g d x) seed) ++ ex).
Proof.
  induction g as [|ss t g IH nd]; intros; cbn [compile backpropInPlace eval app length].
  - apply loop_leaves; rewrite ?app_length, ?len_to_array; lia.
  - cbn [loop]. rewrite nth_last by apply len_compile.
    destruct seed as [so sp]. cbn [to_array fst snd].
    rewrite nth_last by apply len_to_array. cbn [backward projT1 mk].
    destruct (shape_dec t t) as [e|]; [|congruence].
    cbn [projT2]. rewrite cast_refl.
    rewrite <- (app_assoc (to_array _ sp)), add_all_acc.
    rewrite <- (app_assoc (compile _ _ _)), IH.
    now rewrite <- app_assoc.
Qed.

(** * The link *)

(** No algebra at all: for any carrier and any addition, hence for floating-point addition as modelled, rounding by
    rounding, the loop never errs and equals backpropagation with contributions added in the tape's order. *)
Theorem tape_eq_ir_anyadd Gam ss (g : graph Gam ss) d x seed :
  run_backward (compile g d x) (to_array _ seed) = Ok (to_array _ (backpropInPlace radd g d (eval g d x) seed)).
Proof.
  unfold run_backward. rewrite len_compile.
  rewrite <- (app_nil_r (compile g d x)), <- (app_nil_r (to_array _ seed)).
  rewrite loop_in_place. now rewrite app_nil_r.
Qed.

(** Over a commutative semiring it equals backpropagation as defined. No hypothesis on the rules: this is about the
    traversal and the accumulation alone. *)
Theorem tape_eq_ir (r0 r1 : R) (rmul : R -> R -> R) (SR : semi_ring_theory r0 r1 radd rmul (@eq R))
  Gam ss (g : graph Gam ss) d x seed :
  run_backward (compile g d x) (to_array _ seed) = Ok (to_array _ (backpropAll r0 radd g d x seed)).
Proof. now rewrite tape_eq_ir_anyadd, (backpropInPlace_correct SR). Qed.
End Tape.
