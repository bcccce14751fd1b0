(** Every theorem by name, with all that it rests on. The lines "theorem NAME" of a group come first, then what the group rests
    on together. (One search for all of a group: one for each theorem would take minutes.) *)
From Backproof Require Tensor Graph Tape Adjoint Table Index Primitives Refutations Program Derivative RealFunctions NodeDerivatives PrimitivesReal Reductions Network.

(** * The tape, and backpropagation *)
Definition group_1 := (
  @Tape.tape_eq_ir_anyadd,
  @Tape.tape_eq_ir,
  @Tape.compile_values,
  @Tape.to_array_shapes,
  @Graph.backprop_adjoint,
  @Graph.backprop_out,
  @Graph.backpropAll_leaves,
  @Graph.backpropInPlace_correct,
  @Adjoint.local_adjoint,
  @Adjoint.elementwise_adjoint,
  @Table.apply_transposed,
  @Table.linear_adjoint,
  @Table.tabled_adjoint,
  @Table.bilinear_adjoint,
  @Adjoint.opaque_adjoint,
  @Adjoint.constant_adjoint).
Goal True.
  idtac "theorem Tape.tape_eq_ir_anyadd".
  idtac "theorem Tape.tape_eq_ir".
  idtac "theorem Tape.compile_values".
  idtac "theorem Tape.to_array_shapes".
  idtac "theorem Graph.backprop_adjoint".
  idtac "theorem Graph.backprop_out".
  idtac "theorem Graph.backpropAll_leaves".
  idtac "theorem Graph.backpropInPlace_correct".
  idtac "theorem Adjoint.local_adjoint".
  idtac "theorem Adjoint.elementwise_adjoint".
  idtac "theorem Table.apply_transposed".
  idtac "theorem Table.linear_adjoint".
  idtac "theorem Table.tabled_adjoint".
  idtac "theorem Table.bilinear_adjoint".
  idtac "theorem Adjoint.opaque_adjoint".
  idtac "theorem Adjoint.constant_adjoint".
Abort.
Print Assumptions group_1.

(** * Local adjointness, primitive by primitive *)
Definition group_2 := (
  @Primitives.add_adjoint,
  @Primitives.sub_adjoint,
  @Primitives.mul_adjoint,
  @Primitives.div_adjoint,
  @Primitives.neg_adjoint,
  @Primitives.pow_adjoint,
  @Primitives.exp_adjoint,
  @Primitives.expm1_adjoint,
  @Primitives.log_adjoint,
  @Primitives.log1p_adjoint,
  @Primitives.sqrt_adjoint,
  @Primitives.rsqrt_adjoint,
  @Primitives.tanh_adjoint,
  @Primitives.sigmoid_adjoint,
  @Primitives.erf_adjoint,
  @Primitives.sin_adjoint,
  @Primitives.cos_adjoint,
  @Primitives.relu_adjoint,
  @Primitives.abs_adjoint,
  @Primitives.maximum_adjoint,
  @Primitives.minimum_adjoint,
  @Primitives.where_adjoint,
  @Primitives.cast_adjoint,
  @Primitives.reshape_adjoint,
  @Primitives.transpose_adjoint,
  @Primitives.broadcast_adjoint,
  @Primitives.slice_adjoint,
  @Primitives.pad_adjoint,
  @Primitives.flip_adjoint,
  @Primitives.concat_adjoint,
  @Primitives.sum_adjoint,
  @Primitives.cumsum_adjoint,
  @Primitives.sum_pool_adjoint,
  @Primitives.gather_adjoint,
  @Primitives.scatter_add_adjoint,
  @Primitives.gather_along_adjoint,
  @Primitives.scatter_along_adjoint,
  @Primitives.max_pool_adjoint,
  @Primitives.max_adjoint,
  @Primitives.min_adjoint,
  @Primitives.prod_adjoint,
  @Primitives.logsumexp_adjoint,
  @Primitives.dot_general_adjoint,
  @Primitives.conv_adjoint,
  @Primitives.stop_gradient_adjoint,
  @Primitives.sign_adjoint).
Goal True.
  idtac "theorem Primitives.add_adjoint".
  idtac "theorem Primitives.sub_adjoint".
  idtac "theorem Primitives.mul_adjoint".
  idtac "theorem Primitives.div_adjoint".
  idtac "theorem Primitives.neg_adjoint".
  idtac "theorem Primitives.pow_adjoint".
  idtac "theorem Primitives.exp_adjoint".
  idtac "theorem Primitives.expm1_adjoint".
  idtac "theorem Primitives.log_adjoint".
  idtac "theorem Primitives.log1p_adjoint".
  idtac "theorem Primitives.sqrt_adjoint".
  idtac "theorem Primitives.rsqrt_adjoint".
  idtac "theorem Primitives.tanh_adjoint".
  idtac "theorem Primitives.sigmoid_adjoint".
  idtac "theorem Primitives.erf_adjoint".
  idtac "theorem Primitives.sin_adjoint".
  idtac "theorem Primitives.cos_adjoint".
  idtac "theorem Primitives.relu_adjoint".
  idtac "theorem Primitives.abs_adjoint".
  idtac "theorem Primitives.maximum_adjoint".
  idtac "theorem Primitives.minimum_adjoint".
  idtac "theorem Primitives.where_adjoint".
  idtac "theorem Primitives.cast_adjoint".
  idtac "theorem Primitives.reshape_adjoint".
  idtac "theorem Primitives.transpose_adjoint".
  idtac "theorem Primitives.broadcast_adjoint".
  idtac "theorem Primitives.slice_adjoint".
  idtac "theorem Primitives.pad_adjoint".
  idtac "theorem Primitives.flip_adjoint".
  idtac "theorem Primitives.concat_adjoint".
  idtac "theorem Primitives.sum_adjoint".
  idtac "theorem Primitives.cumsum_adjoint".
  idtac "theorem Primitives.sum_pool_adjoint".
  idtac "theorem Primitives.gather_adjoint".
  idtac "theorem Primitives.scatter_add_adjoint".
  idtac "theorem Primitives.gather_along_adjoint".
  idtac "theorem Primitives.scatter_along_adjoint".
  idtac "theorem Primitives.max_pool_adjoint".
  idtac "theorem Primitives.max_adjoint".
  idtac "theorem Primitives.min_adjoint".
  idtac "theorem Primitives.prod_adjoint".
  idtac "theorem Primitives.logsumexp_adjoint".
  idtac "theorem Primitives.dot_general_adjoint".
  idtac "theorem Primitives.conv_adjoint".
  idtac "theorem Primitives.stop_gradient_adjoint".
  idtac "theorem Primitives.sign_adjoint".
Abort.
Print Assumptions group_2.

(** * Mistakes refused *)
Definition group_3 := (
  @Refutations.log_softmax_vjp_is_not_its_jvp,
  @Refutations.gather_jvp_is_not_zero).
Goal True.
  idtac "theorem Refutations.log_softmax_vjp_is_not_its_jvp".
  idtac "theorem Refutations.gather_jvp_is_not_zero".
Abort.
Print Assumptions group_3.

(** * Recorded graphs *)
Definition group_4 := (
  @Program.run_program_sound,
  @Program.certificate_sound).
Goal True.
  idtac "theorem Program.run_program_sound".
  idtac "theorem Program.certificate_sound".
Abort.
Print Assumptions group_4.

(** * Derivatives over the reals *)
Definition group_5 := (
  @Derivative.jvp_is_derivative,
  @Derivative.backprop_is_gradient,
  @Derivative.backprop_is_gradient_on_paths,
  @NodeDerivatives.unary_derivative,
  @NodeDerivatives.binary_derivative,
  @NodeDerivatives.linear_derivative,
  @NodeDerivatives.selected_derivative,
  @NodeDerivatives.bilinear_derivative,
  @PrimitivesReal.environment_settled).
Goal True.
  idtac "theorem Derivative.jvp_is_derivative".
  idtac "theorem Derivative.backprop_is_gradient".
  idtac "theorem Derivative.backprop_is_gradient_on_paths".
  idtac "theorem NodeDerivatives.unary_derivative".
  idtac "theorem NodeDerivatives.binary_derivative".
  idtac "theorem NodeDerivatives.linear_derivative".
  idtac "theorem NodeDerivatives.selected_derivative".
  idtac "theorem NodeDerivatives.bilinear_derivative".
  idtac "theorem PrimitivesReal.environment_settled".
Abort.
Print Assumptions group_5.

(** * Slopes of functions *)
Definition group_6 := (
  @RealFunctions.exp_slope,
  @RealFunctions.expm1_slope,
  @RealFunctions.log_slope,
  @RealFunctions.log1p_slope,
  @RealFunctions.sqrt_slope,
  @RealFunctions.rsqrt_slope,
  @RealFunctions.tanh_slope,
  @RealFunctions.sigmoid_slope,
  @RealFunctions.erf_slope,
  @RealFunctions.sin_slope,
  @RealFunctions.cos_slope,
  @RealFunctions.relu_slope,
  @RealFunctions.abs_slope,
  @RealFunctions.sign_slope,
  @RealFunctions.add_slopes,
  @RealFunctions.sub_slopes,
  @RealFunctions.mul_slopes,
  @RealFunctions.div_slopes,
  @RealFunctions.pow_slopes,
  @RealFunctions.pow_nat_slope,
  @RealFunctions.maximum_slopes,
  @RealFunctions.minimum_slopes).
Goal True.
  idtac "theorem RealFunctions.exp_slope".
  idtac "theorem RealFunctions.expm1_slope".
  idtac "theorem RealFunctions.log_slope".
  idtac "theorem RealFunctions.log1p_slope".
  idtac "theorem RealFunctions.sqrt_slope".
  idtac "theorem RealFunctions.rsqrt_slope".
  idtac "theorem RealFunctions.tanh_slope".
  idtac "theorem RealFunctions.sigmoid_slope".
  idtac "theorem RealFunctions.erf_slope".
  idtac "theorem RealFunctions.sin_slope".
  idtac "theorem RealFunctions.cos_slope".
  idtac "theorem RealFunctions.relu_slope".
  idtac "theorem RealFunctions.abs_slope".
  idtac "theorem RealFunctions.sign_slope".
  idtac "theorem RealFunctions.add_slopes".
  idtac "theorem RealFunctions.sub_slopes".
  idtac "theorem RealFunctions.mul_slopes".
  idtac "theorem RealFunctions.div_slopes".
  idtac "theorem RealFunctions.pow_slopes".
  idtac "theorem RealFunctions.pow_nat_slope".
  idtac "theorem RealFunctions.maximum_slopes".
  idtac "theorem RealFunctions.minimum_slopes".
Abort.
Print Assumptions group_6.

(** * Derivatives, primitive by primitive *)
Definition group_7 := (
  @PrimitivesReal.add_derivative,
  @PrimitivesReal.sub_derivative,
  @PrimitivesReal.mul_derivative,
  @PrimitivesReal.div_derivative,
  @PrimitivesReal.neg_derivative,
  @PrimitivesReal.pow_derivative,
  @PrimitivesReal.pow_nat_derivative,
  @PrimitivesReal.exp_derivative,
  @PrimitivesReal.expm1_derivative,
  @PrimitivesReal.log_derivative,
  @PrimitivesReal.log1p_derivative,
  @PrimitivesReal.sqrt_derivative,
  @PrimitivesReal.rsqrt_derivative,
  @PrimitivesReal.tanh_derivative,
  @PrimitivesReal.sigmoid_derivative,
  @PrimitivesReal.erf_derivative,
  @PrimitivesReal.sin_derivative,
  @PrimitivesReal.cos_derivative,
  @PrimitivesReal.relu_derivative,
  @PrimitivesReal.abs_derivative,
  @PrimitivesReal.maximum_derivative,
  @PrimitivesReal.minimum_derivative,
  @PrimitivesReal.where_derivative,
  @PrimitivesReal.cast_derivative,
  @PrimitivesReal.sign_derivative,
  @PrimitivesReal.reshape_derivative,
  @PrimitivesReal.transpose_derivative,
  @PrimitivesReal.broadcast_derivative,
  @PrimitivesReal.slice_derivative,
  @PrimitivesReal.pad_derivative,
  @PrimitivesReal.flip_derivative,
  @PrimitivesReal.concat_derivative,
  @PrimitivesReal.sum_derivative,
  @PrimitivesReal.cumsum_derivative,
  @PrimitivesReal.sum_pool_derivative,
  @PrimitivesReal.gather_derivative,
  @PrimitivesReal.scatter_add_derivative,
  @PrimitivesReal.gather_along_derivative,
  @PrimitivesReal.scatter_along_derivative,
  @PrimitivesReal.max_pool_derivative,
  @PrimitivesReal.dot_general_derivative,
  @PrimitivesReal.conv_derivative,
  @Reductions.logsumexp_derivative,
  @Reductions.prod_derivative,
  @Reductions.extreme_derivative,
  @Reductions.max_derivative,
  @Reductions.min_derivative).
Goal True.
  idtac "theorem PrimitivesReal.add_derivative".
  idtac "theorem PrimitivesReal.sub_derivative".
  idtac "theorem PrimitivesReal.mul_derivative".
  idtac "theorem PrimitivesReal.div_derivative".
  idtac "theorem PrimitivesReal.neg_derivative".
  idtac "theorem PrimitivesReal.pow_derivative".
  idtac "theorem PrimitivesReal.pow_nat_derivative".
  idtac "theorem PrimitivesReal.exp_derivative".
  idtac "theorem PrimitivesReal.expm1_derivative".
  idtac "theorem PrimitivesReal.log_derivative".
  idtac "theorem PrimitivesReal.log1p_derivative".
  idtac "theorem PrimitivesReal.sqrt_derivative".
  idtac "theorem PrimitivesReal.rsqrt_derivative".
  idtac "theorem PrimitivesReal.tanh_derivative".
  idtac "theorem PrimitivesReal.sigmoid_derivative".
  idtac "theorem PrimitivesReal.erf_derivative".
  idtac "theorem PrimitivesReal.sin_derivative".
  idtac "theorem PrimitivesReal.cos_derivative".
  idtac "theorem PrimitivesReal.relu_derivative".
  idtac "theorem PrimitivesReal.abs_derivative".
  idtac "theorem PrimitivesReal.maximum_derivative".
  idtac "theorem PrimitivesReal.minimum_derivative".
  idtac "theorem PrimitivesReal.where_derivative".
  idtac "theorem PrimitivesReal.cast_derivative".
  idtac "theorem PrimitivesReal.sign_derivative".
  idtac "theorem PrimitivesReal.reshape_derivative".
  idtac "theorem PrimitivesReal.transpose_derivative".
  idtac "theorem PrimitivesReal.broadcast_derivative".
  idtac "theorem PrimitivesReal.slice_derivative".
  idtac "theorem PrimitivesReal.pad_derivative".
  idtac "theorem PrimitivesReal.flip_derivative".
  idtac "theorem PrimitivesReal.concat_derivative".
  idtac "theorem PrimitivesReal.sum_derivative".
  idtac "theorem PrimitivesReal.cumsum_derivative".
  idtac "theorem PrimitivesReal.sum_pool_derivative".
  idtac "theorem PrimitivesReal.gather_derivative".
  idtac "theorem PrimitivesReal.scatter_add_derivative".
  idtac "theorem PrimitivesReal.gather_along_derivative".
  idtac "theorem PrimitivesReal.scatter_along_derivative".
  idtac "theorem PrimitivesReal.max_pool_derivative".
  idtac "theorem PrimitivesReal.dot_general_derivative".
  idtac "theorem PrimitivesReal.conv_derivative".
  idtac "theorem Reductions.logsumexp_derivative".
  idtac "theorem Reductions.prod_derivative".
  idtac "theorem Reductions.extreme_derivative".
  idtac "theorem Reductions.max_derivative".
  idtac "theorem Reductions.min_derivative".
Abort.
Print Assumptions group_7.

(** * A worked example *)
Definition group_8 := (
  @Network.network_gradient).
Goal True.
  idtac "theorem Network.network_gradient".
Abort.
Print Assumptions group_8.
