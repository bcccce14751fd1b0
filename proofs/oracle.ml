(* The oracle: the extracted program of Program.v over Zarith's integers. It reads a recorded graph as words on standard
   input, and writes one line of numbers for each value, then one for each gradient. README.md describes the words.

   Proved: everything in session.ml. Not proved: this reader, Zarith, OCaml's compiler, that machine integers stand for
   indices, and the arrays of flat.ml for maps. *)
module Big = Z (* before Session brings a Z of its own *)
open Session

let buffer = Bytes.create 65536
let filled = ref 0
let place = ref 0
let next () =
  if !place >= !filled then begin filled := input stdin buffer 0 65536; place := 0 end;
  if !filled = 0 then '\000' else begin let c = Bytes.get buffer !place in incr place; c end
let rec word () =
  let b = Buffer.create 16 in
  let rec skip () = match next () with ' ' | '\n' -> skip () | c -> c in
  let rec rest c = match c with ' ' | '\n' | '\000' -> Buffer.contents b | c -> Buffer.add_char b c; rest (next ()) in
  rest (skip ())
let int () = int_of_string (word ())
let number () = Big.of_string (word ())
let rec times n f = if n = 0 then [] else let a = f () in a :: times (n - 1) f
let many f = let n = int () in let r = ref [] in for _ = 1 to n do r := f () :: !r done; List.rev !r
let ints () = many int
let bool () = int () = 1
let shape () = shape_of (ints ())

let rec expr () = match word () with
  | "v" -> Var (int ())
  | "n" -> Num (number ())
  | "+" -> let a = expr () in Add (a, expr ())
  | "*" -> let a = expr () in Mul (a, expr ())
  | "-" -> Opp (expr ())
  | "^" -> let a = expr () in Pow (a, expr ())
  | "p" -> let c = many number in Poly (c, expr ())
  | w -> failwith ("expression " ^ w)
let slope () = match word () with "none" -> None | "some" -> Some (expr ()) | w -> failwith ("slope " ^ w)

let table () = match word () with
  | "reshape" -> reshape_table (ints ())
  | "transpose" -> let x = ints () in transpose_table x (ints ())
  | "broadcast" -> let x = ints () in let y = ints () in broadcast_table x y (ints ())
  | "slice" -> let x = ints () in let y = ints () in let a = ints () in slice_table x y a (ints ())
  | "pad" -> let x = ints () in let y = ints () in let a = ints () in pad_table x y a (ints ())
  | "concat" -> let x = ints () in let y = ints () in let a = int () in concat_table x y a (int ())
  | "flip" -> let x = ints () in flip_table x (ints ())
  | "sum" -> let x = ints () in sum_table x (ints ())
  | "cumsum" -> let x = ints () in let a = int () in cumsum_table x a (bool ())
  | "sum_pool" -> let x = ints () in let y = ints () in let w = ints () in let s = ints () in let d = ints () in
    sum_pool_table x y w s d (ints ())
  | "gather" -> let x = ints () in let a = int () in gather_table x a (ints ())
  | "scatter_add" -> let y = ints () in let a = int () in scatter_add_table y a (ints ())
  | "gather_along" -> let x = ints () in let a = int () in let m = int () in gather_along_table x a m (ints ())
  | "scatter_along" -> let y = ints () in let a = int () in let m = int () in scatter_along_table y a m (ints ())
  | "dot_general" -> let a = ints () in let b = ints () in let ca = ints () in let cb = ints () in let ba = ints () in
    dot_general_table a b ca cb ba (ints ())
  | "conv" -> let x = ints () in let w = ints () in let y = ints () in let s = ints () in let di = ints () in
    let dw = ints () in let low = ints () in conv_table x w y s di dw low (int ())
  | w -> failwith ("table " ^ w)

let entry () = let i = int () in let c = number () in ((i, c), int ())
let instruction () = match word () with
  | "given" -> let t = shape () in Given (t, many number)
  | "elementwise" -> let f = expr () in let s = many slope in Elementwise (f, s, ints ())
  | "linear" -> let t = shape () in Linear (t, many (fun () -> let a = int () in (a, table ())))
  | "bilinear" -> let t = shape () in let tab = table () in let a = int () in Bilinear (t, tab, a, int ())
  | "selected" -> let t = shape () in let a = int () in let f = many entry in Selected (t, a, f, many entry)
  | "product" -> let t = shape () in let tab = table () in Product (t, int (), tab)
  | "pooled" -> let t = shape () in let tab = table () in let a = int () in
    let before = expr () in let after = expr () in Pooled (t, a, tab, before, after, expr ())
  | "stop" -> Stop (int ())
  | w -> failwith ("instruction " ^ w)

(* Long numbers in base 16: their length in decimal takes a square of it to find. *)
let text v = if Big.numbits v <= 1024 then Big.to_string v else Big.format "%#x" v

(* Recursion over long lists makes a deep stack, and each small collection reads all of it: few collections are several times faster. *)
let () = Gc.set { (Gc.get ()) with Gc.minor_heap_size = 1 lsl 23; space_overhead = 300 }

let () =
  let leaves = many (fun () -> let s = shape () in (s, many number)) in
  let program = many instruction in
  let out = int () in
  let seed = many number in
  let start = Sys.time () in
  let power a b = Big.pow a (Big.to_int (Big.abs b)) in
  match run_program Big.zero Big.one Big.add Big.mul Big.neg power leaves program out seed with
  | None -> prerr_endline "the graph does not fit together"; exit 1
  | Some (values, gradients) ->
    Printf.eprintf "%.3f\n" (Sys.time () -. start);
    let b = Buffer.create 1000000 in
    let line l = List.iter (fun v -> Buffer.add_string b (text v); Buffer.add_char b ' ') l; Buffer.add_char b '\n' in
    List.iter line values; List.iter line gradients;
    print_string (Buffer.contents b)
