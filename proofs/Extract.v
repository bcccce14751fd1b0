(** The program that runs recorded graphs, as OCaml. Indices become machine integers; the carrier and its arithmetic are
    given by oracle.ml. *)
Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.
From Backproof Require Import Tensor Table Index Program.
Extraction Language OCaml.
Extraction "session.ml" run_program shape_of
  reshape_table transpose_table broadcast_table slice_table pad_table concat_table flip_table
  sum_table cumsum_table sum_pool_table gather_table scatter_add_table gather_along_table scatter_along_table
  dot_general_table conv_table.
