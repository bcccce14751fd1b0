(** Recorded graphs as data, and a run of the proved backpropagation on them.

    A program is a list of instructions over numbered values: leaves first, then one value for each instruction.
    [run_program] builds the typed graph, evaluates it, and backpropagates. [run_program_sound] says what a result of it means. *)
Require Import List Arith Lia Ring NArith ZArith.
Import ListNotations.
From Backproof Require Import Tensor Graph Tape Adjoint Table Index Primitives.
Set Implicit Arguments.

Section Program.
Variable R : Type.
Variables (r0 r1 : R) (radd rmul : R -> R -> R) (ropp : R -> R).
(** A power, used by elementwise functions; any function will do. *)
Variable rpow : R -> R -> R.
Hypothesis SR : semi_ring_theory r0 r1 radd rmul (@eq R).
Infix "+" := radd.
Infix "*" := rmul.
Notation tensor := (tensor R).
Notation ctx := (ctx R).
Notation node := (node R unit).
Notation graph := (graph R unit).
Notation adjoint := (adjoint r0 radd rmul).
Notation all_adjoint := (all_adjoint r0 radd rmul).

(** * Functions of single elements, as data *)
Inductive expr :=
| Var (i : nat)              (* an argument; the result comes after the last argument *)
| Num (c : R)
| Add (a b : expr)
| Mul (a b : expr)
| Opp (a : expr)
| Pow (a b : expr)
| Poly (c : list R) (a : expr).  (* coefficients from the constant on *)
Fixpoint horner (c : list R) (x : R) : R :=
  match c with [] => r0 | a :: c => a + x * horner c x end.
Fixpoint value_of (e : expr) (x : list R) : R :=
  match e with
  | Var i => nth i x r0
  | Num c => c
  | Add a b => value_of a x + value_of b x
  | Mul a b => value_of a x * value_of b x
  | Opp a => ropp (value_of a x)
  | Pow a b => rpow (value_of a x) (value_of b x)
  | Poly c a => horner c (value_of a x)
  end.
(** A slope may read the result, as rules do: exp's slope is its own result. *)
Definition slope_of (f : expr) (p : option expr) : slope R :=
  option_map (fun p x => value_of p (x ++ [value_of f x])) p.

(** * Instructions *)
Inductive instr :=
| Given (t : shape) (values : list R)                                (* a constant, or a decision that was recorded *)
| Elementwise (f : expr) (slopes : list (option expr)) (args : list nat)
| Linear (t : shape) (sources : list (nat * triples))                (* all coefficients 1 *)
| Bilinear (t : shape) (T : triples) (a b : nat)
| Selected (t : shape) (a : nat) (forward jacobian : table R)        (* an extreme: who won, and how the derivative is shared *)
| Product (t : shape) (a : nat) (T : triples)
| Pooled (t : shape) (a : nat) (T : triples) (before after weight : expr) (* after (sum of before x_i), slope weight(x_i, y) *)
| Stop (a : nat).

(** * From numbers to typed references *)
Fixpoint find (G : list shape) (k : nat) : option {s : shape & idx G s} :=
  match G with
  | [] => None
  | s :: G' =>
      match k with
      | O => Some (existT _ s (IZ G' s))
      | S k => match find G' k with Some (existT _ u i) => Some (existT _ u (IS s i)) | None => None end
      end
  end.
Definition lookup (G : list shape) (id : nat) : option {s : shape & idx G s} :=
  if id <? length G then find G (length G - 1 - id) else None.
Definition typed G (s : shape) (r : option {u : shape & idx G u}) : option (idx G s) :=
  match r with
  | Some (existT _ u i) => match shape_dec u s with left e => Some (eq_rect u (idx G) i s e) | right _ => None end
  | None => None
  end.
Fixpoint all_typed G (s : shape) (ids : list nat) : option (list (idx G s)) :=
  match ids with
  | [] => Some []
  | id :: ids =>
      match typed s (lookup G id), all_typed G s ids with Some i, Some l => Some (i :: l) | _, _ => None end
  end.
Fixpoint all_sources G (l : list (nat * triples)) : option (list (source R unit G)) :=
  match l with
  | [] => Some []
  | (id, T) :: l =>
      match lookup G id, all_sources G l with
      | Some (existT _ u i), Some l => Some (mksource i (fun _ _ => plain r1 T) :: l)
      | _, _ => None
      end
  end.

(** * Nodes, each with its proof of adjointness *)
Definition proved G := {t : shape & {nd : node G t | adjoint nd}}.
Definition with_proof G t (nd : node G t) (H : adjoint nd) : proved G := existT _ t (exist _ nd H).
Arguments with_proof {G t nd} H.
Fixpoint group_product (T : triples) (x : array R) (m : array R) : array R :=
  match T with
  | [] => m
  | (i, _, k) :: T =>
      let old := match FMapPositive.PositiveMap.find (N.succ_pos k) m with Some v => v | None => r1 end in
      group_product T x (FMapPositive.PositiveMap.add (N.succ_pos k) (old * read r0 x i) m)
  end.
Definition product_value s t (T : triples) (v : tensor s) : tensor t :=
  let m := group_product T (array_of R s v) (FMapPositive.PositiveMap.empty R) in
  store r0 t (fun k => match FMapPositive.PositiveMap.find (N.succ_pos k) m with Some v => v | None => r1 end).
Definition others_weight (T : triples) (x : array R) (i k : N) : R :=
  fold_left (fun r e => let '(i', _, k') := e in if ((k =? k') && negb (i =? i'))%bool%N then r * read r0 x i' else r) T r1.
Definition pooled_value s t (T : triples) (before after : expr) (v : tensor s) : tensor t :=
  tmap (fun x => value_of after [x]) t (apply r0 radd rmul s t (plain r1 T) (tmap (fun x => value_of before [x]) s v)).

Definition node_of (G : list shape) (i : instr) : option (proved G) :=
  match i with
  | Given t values => Some (with_proof (constant_adjoint SR G t (fun _ : unit => of_list r0 t values)))
  | Elementwise f slopes ids =>
      match ids with
      | [] => None
      | id :: _ =>
          match lookup G id with
          | None => None
          | Some (existT _ s _) =>
              match all_typed G s ids with
              | Some args => Some (with_proof (elementwise_adjoint (D := unit) SR (value_of f) (map (slope_of f) slopes) args))
              | None => None
              end
          end
      end
  | Linear t l => match all_sources G l with Some l => Some (with_proof (linear_adjoint SR t l)) | None => None end
  | Bilinear t T a b =>
      match lookup G a, lookup G b with
      | Some (existT _ _ a), Some (existT _ _ b) => Some (with_proof (bilinear_adjoint (D := unit) SR t T a b))
      | _, _ => None
      end
  | Selected t a forward jacobian =>
      match lookup G a with
      | Some (existT _ s a) =>
          Some (with_proof (tabled_adjoint SR t (fun (_ : unit) c => apply r0 radd rmul s t forward (cget R a c))
            [mksource a (fun _ _ => jacobian)]))
      | None => None
      end
  | Product t a T =>
      match lookup G a with
      | Some (existT _ s a) =>
          Some (with_proof (tabled_adjoint SR t (fun (_ : unit) c => product_value s t T (cget R a c))
            [mksource a (fun _ c => let x := array_of R s (cget R a c) in weighed T (others_weight T x))]))
      | None => None
      end
  | Pooled t a T before after weight =>
      match lookup G a with
      | Some (existT _ s a) =>
          Some (with_proof (tabled_adjoint SR t (fun (_ : unit) c => pooled_value s t T before after (cget R a c))
            [mksource a (fun _ c =>
              let x := array_of R s (cget R a c) in
              let y := array_of R t (pooled_value s t T before after (cget R a c)) in
              weighed T (fun i k => value_of weight [read r0 x i; read r0 y k]))]))
      | None => None
      end
  | Stop a =>
      match lookup G a with
      | Some (existT _ s a) => Some (with_proof (opaque_adjoint SR G s (fun (_ : unit) c => cget R a c)))
      | None => None
      end
  end.

(** * Graphs *)
Definition proved_graph Gam := {ss : list shape & {g : graph Gam ss | all_adjoint g}}.
Fixpoint build Gam (program : list instr) (so_far : proved_graph Gam) : option (proved_graph Gam) :=
  match program with
  | [] => Some so_far
  | i :: program =>
      match so_far with
      | existT _ ss (exist _ g Hg) =>
          match node_of (ss ++ Gam) i with
          | Some (existT _ t (exist _ nd Hn)) => build program (existT _ (t :: ss) (exist _ (gsnoc g nd) (conj Hg Hn)))
          | None => None
          end
      end
  end.
Definition start Gam : proved_graph Gam := existT _ [] (exist _ (gnil R unit Gam) I).

Fixpoint inputs (leaves : list (shape * list R)) (G : list shape) (c : ctx G) : {G : list shape & ctx G} :=
  match leaves with
  | [] => existT _ G c
  | (s, l) :: leaves => inputs leaves (s :: G) (of_list r0 s l, c)
  end.
(** Oldest first, as the values are numbered. *)
Fixpoint lists G : ctx G -> list (list R) -> list (list R) :=
  match G return ctx G -> list (list R) -> list (list R) with
  | [] => fun _ l => l
  | s :: G => fun (c : ctx (s :: G)) l => lists G (snd c) (to_list R s (fst c) :: l)
  end.

(** Every value and every gradient, from a seed at one value. *)
Definition run_program (leaves : list (shape * list R)) (program : list instr) (out : nat) (seed : list R)
  : option (list (list R) * list (list R)) :=
  let '(existT _ Gam x) := inputs leaves [] tt in
  match build program (start Gam) with
  | Some (existT _ ss (exist _ g _)) =>
      match lookup (ss ++ Gam) out with
      | Some (existT _ s i) =>
          let values := eval g tt x in
          let gradients := backpropInPlace radd g tt values (csingle r0 i (of_list r0 s seed)) in
          Some (lists _ values [], lists _ gradients [])
      | None => None
      end
  | None => None
  end.

(** A result of [run_program] is what the theory speaks of: for some graph, all of whose rules are adjoint, the values are its
    values, the gradients are backpropagation as defined, the tape loop computes the same, and they are the adjoint of forward mode. *)
Theorem run_program_sound leaves program out seed values gradients :
  run_program leaves program out seed = Some (values, gradients) ->
  exists Gam (x : ctx Gam) ss (g : graph Gam ss) s (i : idx (ss ++ Gam) s),
    existT _ Gam x = inputs leaves [] tt /\
    all_adjoint g /\
    values = lists _ (eval g tt x) [] /\
    let start := csingle r0 i (of_list r0 s seed) in
    gradients = lists _ (backpropAll r0 radd g tt x start) [] /\
    run_backward radd (compile g tt x) (@to_array R _ start) = Ok (@to_array R _ (backpropAll r0 radd g tt x start)) /\
    forall dx, dot r0 radd rmul s (cget R i (jvpCtx g tt x dx)) (of_list r0 s seed)
             = cdot r0 radd rmul _ dx (backprop r0 radd g tt x start).
Proof.
  unfold run_program. destruct (inputs leaves [] tt) as [Gam x] eqn:E.
  destruct (build program (start Gam)) as [[ss [g Hg]]|]; [|discriminate].
  destruct (lookup (ss ++ Gam) out) as [[s i]|]; [|discriminate].
  intros H. injection H as H1 H2. exists Gam, x, ss, g, s, i.
  split; [reflexivity|]. split; [exact Hg|]. split; [now symmetry|].
  split; [now rewrite <- H2, (backpropInPlace_correct SR)|].
  split; [apply (tape_eq_ir SR)|]. intros dx. now apply (backprop_out SR).
Qed.
End Program.

Arguments Var {R} i.
Arguments Given {R} t values.
Arguments Linear {R} t sources.
Arguments Bilinear {R} t T a b.
Arguments Selected {R} t a forward jacobian.
Arguments Product {R} t a T.
Arguments Pooled {R} t a T before after weight.
Arguments Stop {R} a.

(** * Over the integers, for the kernel *)
Lemma ZSR : semi_ring_theory 0%Z 1%Z Z.add Z.mul (@eq Z).
Proof. constructor; intros; ring. Qed.
(** A negative power is stood in for by the positive one. *)
Definition run_Z := run_program Z.opp (fun a b => Z.pow a (Z.abs b)) ZSR.

(** Where two lists of lists first differ: value, position, found, recorded. A length that differs shows as a missing number. *)
Fixpoint first_in (found recorded : list Z) (k : nat) : option (nat * option Z * option Z) :=
  match found, recorded with
  | [], [] => None
  | a :: found, b :: recorded => if Z.eqb a b then first_in found recorded (S k) else Some (k, Some a, Some b)
  | a :: _, [] => Some (k, Some a, None)
  | [], b :: _ => Some (k, None, Some b)
  end.
Fixpoint first_difference (found recorded : list (list Z)) (v : nat) : option (nat * (nat * option Z * option Z)) :=
  match found, recorded with
  | a :: found, b :: recorded =>
      match first_in a b 0 with Some d => Some (v, d) | None => first_difference found recorded (S v) end
  | [], [] => None
  | _, _ => Some (v, (O, None, None))
  end.

(** Some of a list: of all values, those that were recorded; of all gradients, those that a session keeps. *)
Fixpoint only A (wanted : list bool) (l : list A) : list A :=
  match wanted, l with
  | true :: wanted, a :: l => a :: only wanted l
  | false :: wanted, _ :: l => only wanted l
  | _, _ => []
  end.
Definition outcome (wanted : list bool * list bool) (r : option (list (list Z) * list (list Z))) :=
  option_map (fun p => (only (fst wanted) (fst p), only (snd wanted) (snd p))) r.
Definition difference (wanted : list bool * list bool) (r : option (list (list Z) * list (list Z))) (recorded : list (list Z) * list (list Z)) :=
  match outcome wanted r with
  | None => None
  | Some (v, g) => Some (first_difference v (fst recorded) 0, first_difference g (snd recorded) 0)
  end.

(** What a certificate says: the recorded numbers are those of a graph all of whose rules are adjoint, its gradients are
    backpropagation as defined, and the tape loop never errs on it and computes the same. *)
Theorem certificate_sound leaves program out seed wanted values gradients :
  outcome wanted (run_Z leaves program out seed) = Some (values, gradients) ->
  exists Gam (x : ctx Z Gam) ss (g : graph Z unit Gam ss) s (i : idx (ss ++ Gam) s),
    existT _ Gam x = inputs 0%Z leaves [] tt /\
    all_adjoint 0%Z Z.add Z.mul g /\
    values = only (fst wanted) (lists _ (eval g tt x) []) /\
    let start := csingle 0%Z i (of_list 0%Z s seed) in
    gradients = only (snd wanted) (lists _ (backpropAll 0%Z Z.add g tt x start) []) /\
    run_backward Z.add (compile g tt x) (@to_array Z _ start) = Ok (@to_array Z _ (backpropAll 0%Z Z.add g tt x start)).
Proof.
  unfold run_Z. destruct (run_program _ _ _ _ _ _ _) as [[v g]|] eqn:E; [|discriminate].
  intros H. injection H as H1 H2. apply run_program_sound in E.
  destruct E as (Gam & x & ss & gr & s & i & E1 & E2 & E3 & E4 & E5 & _).
  exists Gam, x, ss, gr, s, i. split; [exact E1|]. split; [exact E2|].
  split; [now rewrite <- E3|]. split; [now rewrite <- E4|exact E5].
Qed.
