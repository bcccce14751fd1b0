(** The program that runs recorded graphs, as OCaml. Indices become machine integers, and maps from them the arrays of flat.ml;
    the carrier and its arithmetic are given by oracle.ml. *)
Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt FMapPositive.
From Backproof Require Import Tensor Table Index Program.
Extraction Language OCaml.
Extract Constant PositiveMap.t "'a" => "'a Flat.t".
Extract Constant PositiveMap.empty => "Flat.empty".
Extract Constant PositiveMap.find => "Flat.find".
Extract Constant PositiveMap.add => "Flat.add".
Extraction "session.ml" run_program shape_of
  reshape_table transpose_table broadcast_table slice_table pad_table concat_table flip_table
  sum_table cumsum_table sum_pool_table gather_table scatter_add_table gather_along_table scatter_along_table
  dot_general_table conv_table.
