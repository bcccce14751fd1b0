(* Maps from indices, in place of the theory's search trees: one array, which the newest version holds. Each older version
   remembers the entry in which it differs from the next; whoever looks into it makes it the newest. *)
type 'a version = Newest of 'a option array | Older of int * 'a option * 'a version ref
type 'a t = 'a version ref option

let rec newest v = match !v with
  | Newest a -> a
  | Older (k, was, next) ->
    let a = newest next in
    next := Older (k, a.(k), v);
    a.(k) <- was;
    v := Newest a;
    a

let empty = None

let find k = function
  | None -> None
  | Some v -> let a = newest v in if k < Array.length a then a.(k) else None

let add k x m =
  let v = match m with None -> ref (Newest [||]) | Some v -> v in
  let a = newest v in
  let a = if k < Array.length a then a else Array.append a (Array.make (k + 1) None) in
  let next = ref (Newest a) in
  v := Older (k, a.(k), next);
  a.(k) <- Some x;
  Some next
