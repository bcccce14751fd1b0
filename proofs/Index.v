(** The index tables of the structural primitives, by index arithmetic alone.

    A triple (i, j, k) relates flat index i of the first operand, j of the second and k of the result; an operand that is
    not there has index 0. A table is a product of factors: one factor for each axis, and the indices of the factors add up. *)
Require Import List NArith ZArith Bool.
Import ListNotations.
From Backproof Require Import Tensor Table.
Local Open Scope N_scope.

Definition dims := list N.
Definition volume (l : dims) : N := fold_right N.mul 1 l.
(** Row-major strides. *)
Fixpoint strides (l : dims) : list N :=
  match l with [] => [] | _ :: l => volume l :: strides l end.
Definition range (n : N) : list N := count 0 (N.to_nat n).
Definition at_axis (l : list N) (i : N) : N := nth (N.to_nat i) l 0.
Definition position (i : N) (l : list N) : option N :=
  (fix go l k := match l with [] => None | j :: l => if i =? j then Some k else go l (N.succ k) end) l 0.
Definition member (i : N) (l : list N) : bool := existsb (N.eqb i) l.
Definition zip {A B} (a : list A) (b : list B) : list (A * B) := combine a b.
Definition shape_of (l : dims) : shape := fold_right (fun n s => dim (N.to_nat n) s) scalar l.

(** * Products of factors *)
Fixpoint product (factors : list triples) : triples :=
  match factors with
  | [] => [(0, 0, 0)]
  | f :: fs =>
      let rest := product fs in
      flat_map (fun e => let '(i, j, k) := e in map (fun e' => let '(i', j', k') := e' in (i + i', j + j', k + k')) rest) f
  end.
(** All operands walk along together, each in steps of its own; a step of 0 stands still. *)
Definition walk (n si sj sk : N) : triples := map (fun p => (p * si, p * sj, p * sk)) (range n).
(** Exchange the first operand and the result. *)
Definition swap (T : triples) : triples := map (fun e => let '(i, j, k) := e in (k, j, i)) T.

(** * One axis: which place of the input meets which place of the result *)
Definition relation := list (N * N).
Definition same (n : N) : relation := map (fun p => (p, p)) (range n).
Definition slice_axis (start step n : N) : relation := map (fun p => (start + p * step, p)) (range n).
Definition pad_axis (low interior n : N) : relation := map (fun p => (p, low + p * (interior + 1))) (range n).
Definition flip_axis (n : N) : relation := map (fun p => (n - 1 - p, p)) (range n).
Definition cumsum_axis (reverse : bool) (n : N) : relation :=
  flat_map (fun k => flat_map (fun i => if (if reverse then k <=? i else i <=? k) then [(i, k)] else []) (range n)) (range n).
(** Places that a window of size w covers: k * stride + p * dilation - low. *)
Definition window_axis (n w stride dilation low out : N) : relation :=
  flat_map (fun k => flat_map (fun p =>
    let i := k * stride + p * dilation in
    if (low <=? i) && (i - low <? n) then [(i - low, k)] else []) (range w)) (range out).
(** Integers to places, those that point nowhere left out. *)
Definition index_axis (index : list Z) (n : N) : relation :=
  flat_map (fun e => let '(z, k) := e in
    if ((0 <=? z) && (z <? Z.of_N n))%Z then [(Z.to_N z, k)] else []) (zip index (count 0 (length index))).

Definition scaled (R : relation) (si sk : N) : triples := map (fun e => let '(i, k) := e in (i * si, 0, k * sk)) R.
(** Axis by axis, with the row-major strides of the input and of the result. *)
Definition aligned (relations : list relation) (x y : dims) : triples :=
  product (map (fun e => let '(R, (si, sk)) := e in scaled R si sk) (zip relations (zip (strides x) (strides y)))).
Definition on_axis (axis : N) (here : N -> relation) (x : dims) : list relation :=
  map (fun e => let '(n, a) := e in if a =? axis then here n else same n) (zip x (range (N.of_nat (length x)))).

(** * Rearrangements: x are the sizes of the input *)
Definition reshape_table (x : dims) : triples := walk (volume x) 1 0 1.
Definition transpose_table (x : dims) (axes : list N) : triples :=
  let y := map (at_axis x) axes in
  product (map (fun e => let '(a, sk) := e in walk (at_axis x a) (at_axis (strides x) a) 0 sk) (zip axes (strides y))).
Definition broadcast_table (x y : dims) (axes : list N) : triples :=
  product (map (fun e => let '(k, (n, sk)) := e in
    walk n (match position k axes with Some a => at_axis (strides x) a | None => 0 end) 0 sk)
    (zip (range (N.of_nat (length y))) (zip y (strides y)))).
Definition slice_table (x y : dims) (start step : list N) : triples :=
  aligned (map (fun e => let '(n, (a, s)) := e in slice_axis a s n) (zip y (zip start step))) x y.
Definition pad_table (x y : dims) (low interior : list N) : triples :=
  aligned (map (fun e => let '(n, (a, g)) := e in pad_axis a g n) (zip x (zip low interior))) x y.
Definition concat_table (x y : dims) (axis before : N) : triples :=
  aligned (on_axis axis (pad_axis before 0) x) x y.
Definition flip_table (x : dims) (axes : list N) : triples :=
  aligned (map (fun e => let '(n, a) := e in if member a axes then flip_axis n else same n)
    (zip x (range (N.of_nat (length x))))) x x.

(** * Sums *)
Definition kept (x : dims) (axes : list N) : list N :=
  filter (fun a => negb (member a axes)) (range (N.of_nat (length x))).
Definition sum_table (x : dims) (axes : list N) : triples :=
  let keep := kept x axes in swap (broadcast_table (map (at_axis x) keep) x keep).
Definition cumsum_table (x : dims) (axis : N) (reverse : bool) : triples :=
  aligned (on_axis axis (cumsum_axis reverse) x) x x.
(** window, stride, dilation, low padding, for each axis of space. *)
Definition sum_pool_table (x y : dims) (window stride dilation low : list N) : triples :=
  aligned (map same (firstn 2 x) ++
    map (fun e => let '((n, k), ((w, s), (d, a))) := e in window_axis n w s d a k)
      (zip (zip (skipn 2 x) (skipn 2 y)) (zip (zip window stride) (zip dilation low)))) x y.

(** * Reading and writing by index *)
Definition gather_table (x : dims) (axis : N) (index : list Z) : triples :=
  let outer := volume (firstn (N.to_nat axis) x) in
  let n := at_axis x axis in
  let inner := volume (skipn (S (N.to_nat axis)) x) in
  product [ walk outer (n * inner) 0 (N.of_nat (length index) * inner); scaled (index_axis index n) inner inner; walk inner 1 0 1 ].
(** The updates have the index's sizes in place of the axis; [y] are the sizes of the result. *)
Definition scatter_add_table (y : dims) (axis : N) (index : list Z) : triples := swap (gather_table y axis index).
(** [index] has as many elements as the result, [m] of them along the axis. *)
Definition gather_along_table (x : dims) (axis m : N) (index : list Z) : triples :=
  let n := at_axis x axis in
  let inner := volume (skipn (S (N.to_nat axis)) x) in
  flat_map (fun e => let '(z, k) := e in
    if ((0 <=? z) && (z <? Z.of_N n))%Z
    then [(((k / (m * inner)) * n + Z.to_N z) * inner + k mod inner, 0, k)] else [])
    (zip index (count 0 (length index))).
Definition scatter_along_table (y : dims) (axis m : N) (index : list Z) : triples := swap (gather_along_table y axis m index).

(** * Products *)
Definition free (rank : nat) (used : list N) : list N := filter (fun a => negb (member a used)) (range (N.of_nat rank)).
Definition dot_general_table (a b : dims) (contract_a contract_b batch_a batch_b : list N) : triples :=
  let free_a := free (length a) (contract_a ++ batch_a) in
  let free_b := free (length b) (contract_b ++ batch_b) in
  let y := map (at_axis a) (batch_a ++ free_a) ++ map (at_axis b) free_b in
  let sa := at_axis (strides a) in let sb := at_axis (strides b) in
  let sy := strides y in
  let nb := length batch_a in let na := length free_a in
  product (
    map (fun e => let '((i, j), k) := e in walk (at_axis a i) (sa i) (sb j) k) (zip (zip batch_a batch_b) (firstn nb sy)) ++
    map (fun e => let '(i, k) := e in walk (at_axis a i) (sa i) 0 k) (zip free_a (firstn na (skipn nb sy))) ++
    map (fun e => let '(j, k) := e in walk (at_axis b j) 0 (sb j) k) (zip free_b (skipn (nb + na) sy)) ++
    map (fun e => let '(i, j) := e in walk (at_axis a i) (sa i) (sb j) 0) (zip contract_a contract_b)).

(** Along one axis of space: i * input dilation = k * stride + p * window dilation - low. *)
Definition conv_axis (n w out stride input_dilation window_dilation : N) (low : Z) (si sj sk : N) : triples :=
  flat_map (fun k => flat_map (fun p =>
    let z := (Z.of_N (k * stride + p * window_dilation) - low)%Z in
    let i := Z.to_N z / input_dilation in
    if (0 <=? z)%Z && (Z.to_N z mod input_dilation =? 0) && (i <? n) then [(i * si, p * sj, k * sk)] else [])
    (range w)) (range out).
(** x[batch, channels, space], w[out, channels / groups, window], y[batch, out, space]. *)
Definition conv_table (x w y : dims) (stride input_dilation window_dilation : list N) (low : list Z) (groups : N) : triples :=
  let sx := strides x in let sw := strides w in let sy := strides y in
  let outs := at_axis w 0 / groups in let ins := at_axis w 1 in
  product (
    [ walk (at_axis x 0) (at_axis sx 0) 0 (at_axis sy 0);
      walk groups (ins * at_axis sx 1) (outs * at_axis sw 0) (outs * at_axis sy 1);
      walk outs 0 (at_axis sw 0) (at_axis sy 1);
      walk ins (at_axis sx 1) (at_axis sw 1) 0 ] ++
    map (fun e => let '((n, (v, k)), ((s, (di, dw)), (a, (si, (sj, sk))))) := e in conv_axis n v k s di dw a si sj sk)
      (zip (zip (skipn 2 x) (zip (skipn 2 w) (skipn 2 y)))
           (zip (zip stride (zip input_dilation window_dilation)) (zip low (zip (skipn 2 sx) (zip (skipn 2 sw) (skipn 2 sy))))))).

(** * Examples, computed *)
Definition apply_Z (T : triples) (a b : list Z) (y : dims) : list Z :=
  let read_b := fun j => nth (N.to_nat j) b 0%Z in
  let v := map (fun e => let '(i, j, k) := e in (i, read_b j, k)) T in
  map (fun k => fold_left (fun r e => let '(i, c, k') := e in if k =? k' then (r + c * nth (N.to_nat i) a 0)%Z else r) v 0%Z)
      (range (volume y)).
Example matrix_product :
  apply_Z (dot_general_table [2; 2] [2; 2] [1] [0] [] []) [1; 2; 3; 4]%Z [5; 6; 7; 8]%Z [2; 2] = [19; 22; 43; 50]%Z.
Proof. reflexivity. Qed.
Example convolution :
  apply_Z (conv_table [1; 1; 3; 3] [1; 1; 2; 2] [1; 1; 2; 2] [1; 1] [1; 1] [1; 1] [0; 0]%Z 1)
    [1; 2; 3; 4; 5; 6; 7; 8; 9]%Z [1; 2; 3; 4]%Z [1; 1; 2; 2] = [37; 47; 67; 77]%Z.
Proof. reflexivity. Qed.
Example transposition : apply_Z (transpose_table [2; 3] [1; 0]) [1; 2; 3; 4; 5; 6]%Z [1]%Z [3; 2] = [1; 4; 2; 5; 3; 6]%Z.
Proof. reflexivity. Qed.
Example row_sums : apply_Z (sum_table [2; 3] [1]) [1; 2; 3; 4; 5; 6]%Z [1]%Z [2] = [6; 15]%Z.
Proof. reflexivity. Qed.
