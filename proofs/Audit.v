(** Every theorem by name, with all that it rests on. A line 'theorem NAME' comes before each list. *)
From Backproof Require Tensor Graph Tape Adjoint Table Index Primitives Refutations Program Derivative RealFunctions NodeDerivatives PrimitivesReal Reductions Network.

(** * The tape, and backpropagation *)
Goal True. idtac "theorem Tape.tape_eq_ir_anyadd". Abort. Print Assumptions Tape.tape_eq_ir_anyadd.
Goal True. idtac "theorem Tape.tape_eq_ir". Abort. Print Assumptions Tape.tape_eq_ir.
Goal True. idtac "theorem Tape.compile_values". Abort. Print Assumptions Tape.compile_values.
Goal True. idtac "theorem Tape.to_array_shapes". Abort. Print Assumptions Tape.to_array_shapes.
Goal True. idtac "theorem Graph.backprop_adjoint". Abort. Print Assumptions Graph.backprop_adjoint.
Goal True. idtac "theorem Graph.backprop_out". Abort. Print Assumptions Graph.backprop_out.
Goal True. idtac "theorem Graph.backpropAll_leaves". Abort. Print Assumptions Graph.backpropAll_leaves.
Goal True. idtac "theorem Graph.backpropInPlace_correct". Abort. Print Assumptions Graph.backpropInPlace_correct.
Goal True. idtac "theorem Adjoint.local_adjoint". Abort. Print Assumptions Adjoint.local_adjoint.
Goal True. idtac "theorem Adjoint.elementwise_adjoint". Abort. Print Assumptions Adjoint.elementwise_adjoint.
Goal True. idtac "theorem Table.apply_transposed". Abort. Print Assumptions Table.apply_transposed.
Goal True. idtac "theorem Table.linear_adjoint". Abort. Print Assumptions Table.linear_adjoint.
Goal True. idtac "theorem Table.tabled_adjoint". Abort. Print Assumptions Table.tabled_adjoint.
Goal True. idtac "theorem Table.bilinear_adjoint". Abort. Print Assumptions Table.bilinear_adjoint.
Goal True. idtac "theorem Adjoint.opaque_adjoint". Abort. Print Assumptions Adjoint.opaque_adjoint.
Goal True. idtac "theorem Adjoint.constant_adjoint". Abort. Print Assumptions Adjoint.constant_adjoint.

(** * Local adjointness, primitive by primitive *)
Goal True. idtac "theorem Primitives.add_adjoint". Abort. Print Assumptions Primitives.add_adjoint.
Goal True. idtac "theorem Primitives.sub_adjoint". Abort. Print Assumptions Primitives.sub_adjoint.
Goal True. idtac "theorem Primitives.mul_adjoint". Abort. Print Assumptions Primitives.mul_adjoint.
Goal True. idtac "theorem Primitives.div_adjoint". Abort. Print Assumptions Primitives.div_adjoint.
Goal True. idtac "theorem Primitives.neg_adjoint". Abort. Print Assumptions Primitives.neg_adjoint.
Goal True. idtac "theorem Primitives.pow_adjoint". Abort. Print Assumptions Primitives.pow_adjoint.
Goal True. idtac "theorem Primitives.exp_adjoint". Abort. Print Assumptions Primitives.exp_adjoint.
Goal True. idtac "theorem Primitives.expm1_adjoint". Abort. Print Assumptions Primitives.expm1_adjoint.
Goal True. idtac "theorem Primitives.log_adjoint". Abort. Print Assumptions Primitives.log_adjoint.
Goal True. idtac "theorem Primitives.log1p_adjoint". Abort. Print Assumptions Primitives.log1p_adjoint.
Goal True. idtac "theorem Primitives.sqrt_adjoint". Abort. Print Assumptions Primitives.sqrt_adjoint.
Goal True. idtac "theorem Primitives.rsqrt_adjoint". Abort. Print Assumptions Primitives.rsqrt_adjoint.
Goal True. idtac "theorem Primitives.tanh_adjoint". Abort. Print Assumptions Primitives.tanh_adjoint.
Goal True. idtac "theorem Primitives.sigmoid_adjoint". Abort. Print Assumptions Primitives.sigmoid_adjoint.
Goal True. idtac "theorem Primitives.erf_adjoint". Abort. Print Assumptions Primitives.erf_adjoint.
Goal True. idtac "theorem Primitives.sin_adjoint". Abort. Print Assumptions Primitives.sin_adjoint.
Goal True. idtac "theorem Primitives.cos_adjoint". Abort. Print Assumptions Primitives.cos_adjoint.
Goal True. idtac "theorem Primitives.relu_adjoint". Abort. Print Assumptions Primitives.relu_adjoint.
Goal True. idtac "theorem Primitives.abs_adjoint". Abort. Print Assumptions Primitives.abs_adjoint.
Goal True. idtac "theorem Primitives.maximum_adjoint". Abort. Print Assumptions Primitives.maximum_adjoint.
Goal True. idtac "theorem Primitives.minimum_adjoint". Abort. Print Assumptions Primitives.minimum_adjoint.
Goal True. idtac "theorem Primitives.where_adjoint". Abort. Print Assumptions Primitives.where_adjoint.
Goal True. idtac "theorem Primitives.cast_adjoint". Abort. Print Assumptions Primitives.cast_adjoint.
Goal True. idtac "theorem Primitives.reshape_adjoint". Abort. Print Assumptions Primitives.reshape_adjoint.
Goal True. idtac "theorem Primitives.transpose_adjoint". Abort. Print Assumptions Primitives.transpose_adjoint.
Goal True. idtac "theorem Primitives.broadcast_adjoint". Abort. Print Assumptions Primitives.broadcast_adjoint.
Goal True. idtac "theorem Primitives.slice_adjoint". Abort. Print Assumptions Primitives.slice_adjoint.
Goal True. idtac "theorem Primitives.pad_adjoint". Abort. Print Assumptions Primitives.pad_adjoint.
Goal True. idtac "theorem Primitives.flip_adjoint". Abort. Print Assumptions Primitives.flip_adjoint.
Goal True. idtac "theorem Primitives.concat_adjoint". Abort. Print Assumptions Primitives.concat_adjoint.
Goal True. idtac "theorem Primitives.sum_adjoint". Abort. Print Assumptions Primitives.sum_adjoint.
Goal True. idtac "theorem Primitives.cumsum_adjoint". Abort. Print Assumptions Primitives.cumsum_adjoint.
Goal True. idtac "theorem Primitives.sum_pool_adjoint". Abort. Print Assumptions Primitives.sum_pool_adjoint.
Goal True. idtac "theorem Primitives.gather_adjoint". Abort. Print Assumptions Primitives.gather_adjoint.
Goal True. idtac "theorem Primitives.scatter_add_adjoint". Abort. Print Assumptions Primitives.scatter_add_adjoint.
Goal True. idtac "theorem Primitives.gather_along_adjoint". Abort. Print Assumptions Primitives.gather_along_adjoint.
Goal True. idtac "theorem Primitives.scatter_along_adjoint". Abort. Print Assumptions Primitives.scatter_along_adjoint.
Goal True. idtac "theorem Primitives.max_pool_adjoint". Abort. Print Assumptions Primitives.max_pool_adjoint.
Goal True. idtac "theorem Primitives.max_adjoint". Abort. Print Assumptions Primitives.max_adjoint.
Goal True. idtac "theorem Primitives.min_adjoint". Abort. Print Assumptions Primitives.min_adjoint.
Goal True. idtac "theorem Primitives.prod_adjoint". Abort. Print Assumptions Primitives.prod_adjoint.
Goal True. idtac "theorem Primitives.logsumexp_adjoint". Abort. Print Assumptions Primitives.logsumexp_adjoint.
Goal True. idtac "theorem Primitives.dot_general_adjoint". Abort. Print Assumptions Primitives.dot_general_adjoint.
Goal True. idtac "theorem Primitives.conv_adjoint". Abort. Print Assumptions Primitives.conv_adjoint.
Goal True. idtac "theorem Primitives.stop_gradient_adjoint". Abort. Print Assumptions Primitives.stop_gradient_adjoint.
Goal True. idtac "theorem Primitives.sign_adjoint". Abort. Print Assumptions Primitives.sign_adjoint.

(** * Mistakes refused *)
Goal True. idtac "theorem Refutations.log_softmax_vjp_is_not_its_jvp". Abort. Print Assumptions Refutations.log_softmax_vjp_is_not_its_jvp.
Goal True. idtac "theorem Refutations.gather_jvp_is_not_zero". Abort. Print Assumptions Refutations.gather_jvp_is_not_zero.

(** * Recorded graphs *)
Goal True. idtac "theorem Program.run_program_sound". Abort. Print Assumptions Program.run_program_sound.

(** * Derivatives over the reals *)
Goal True. idtac "theorem Derivative.jvp_is_derivative". Abort. Print Assumptions Derivative.jvp_is_derivative.
Goal True. idtac "theorem Derivative.backprop_is_gradient". Abort. Print Assumptions Derivative.backprop_is_gradient.
Goal True. idtac "theorem Derivative.backprop_is_gradient_on_paths". Abort. Print Assumptions Derivative.backprop_is_gradient_on_paths.
Goal True. idtac "theorem NodeDerivatives.unary_derivative". Abort. Print Assumptions NodeDerivatives.unary_derivative.
Goal True. idtac "theorem NodeDerivatives.binary_derivative". Abort. Print Assumptions NodeDerivatives.binary_derivative.
Goal True. idtac "theorem NodeDerivatives.linear_derivative". Abort. Print Assumptions NodeDerivatives.linear_derivative.
Goal True. idtac "theorem NodeDerivatives.selected_derivative". Abort. Print Assumptions NodeDerivatives.selected_derivative.
Goal True. idtac "theorem NodeDerivatives.bilinear_derivative". Abort. Print Assumptions NodeDerivatives.bilinear_derivative.
Goal True. idtac "theorem PrimitivesReal.environment_settled". Abort. Print Assumptions PrimitivesReal.environment_settled.

(** * Slopes of functions *)
Goal True. idtac "theorem RealFunctions.exp_slope". Abort. Print Assumptions RealFunctions.exp_slope.
Goal True. idtac "theorem RealFunctions.expm1_slope". Abort. Print Assumptions RealFunctions.expm1_slope.
Goal True. idtac "theorem RealFunctions.log_slope". Abort. Print Assumptions RealFunctions.log_slope.
Goal True. idtac "theorem RealFunctions.log1p_slope". Abort. Print Assumptions RealFunctions.log1p_slope.
Goal True. idtac "theorem RealFunctions.sqrt_slope". Abort. Print Assumptions RealFunctions.sqrt_slope.
Goal True. idtac "theorem RealFunctions.rsqrt_slope". Abort. Print Assumptions RealFunctions.rsqrt_slope.
Goal True. idtac "theorem RealFunctions.tanh_slope". Abort. Print Assumptions RealFunctions.tanh_slope.
Goal True. idtac "theorem RealFunctions.sigmoid_slope". Abort. Print Assumptions RealFunctions.sigmoid_slope.
Goal True. idtac "theorem RealFunctions.erf_slope". Abort. Print Assumptions RealFunctions.erf_slope.
Goal True. idtac "theorem RealFunctions.sin_slope". Abort. Print Assumptions RealFunctions.sin_slope.
Goal True. idtac "theorem RealFunctions.cos_slope". Abort. Print Assumptions RealFunctions.cos_slope.
Goal True. idtac "theorem RealFunctions.relu_slope". Abort. Print Assumptions RealFunctions.relu_slope.
Goal True. idtac "theorem RealFunctions.abs_slope". Abort. Print Assumptions RealFunctions.abs_slope.
Goal True. idtac "theorem RealFunctions.sign_slope". Abort. Print Assumptions RealFunctions.sign_slope.
Goal True. idtac "theorem RealFunctions.add_slopes". Abort. Print Assumptions RealFunctions.add_slopes.
Goal True. idtac "theorem RealFunctions.sub_slopes". Abort. Print Assumptions RealFunctions.sub_slopes.
Goal True. idtac "theorem RealFunctions.mul_slopes". Abort. Print Assumptions RealFunctions.mul_slopes.
Goal True. idtac "theorem RealFunctions.div_slopes". Abort. Print Assumptions RealFunctions.div_slopes.
Goal True. idtac "theorem RealFunctions.pow_slopes". Abort. Print Assumptions RealFunctions.pow_slopes.
Goal True. idtac "theorem RealFunctions.pow_nat_slope". Abort. Print Assumptions RealFunctions.pow_nat_slope.
Goal True. idtac "theorem RealFunctions.maximum_slopes". Abort. Print Assumptions RealFunctions.maximum_slopes.
Goal True. idtac "theorem RealFunctions.minimum_slopes". Abort. Print Assumptions RealFunctions.minimum_slopes.

(** * Derivatives, primitive by primitive *)
Goal True. idtac "theorem PrimitivesReal.add_derivative". Abort. Print Assumptions PrimitivesReal.add_derivative.
Goal True. idtac "theorem PrimitivesReal.sub_derivative". Abort. Print Assumptions PrimitivesReal.sub_derivative.
Goal True. idtac "theorem PrimitivesReal.mul_derivative". Abort. Print Assumptions PrimitivesReal.mul_derivative.
Goal True. idtac "theorem PrimitivesReal.div_derivative". Abort. Print Assumptions PrimitivesReal.div_derivative.
Goal True. idtac "theorem PrimitivesReal.neg_derivative". Abort. Print Assumptions PrimitivesReal.neg_derivative.
Goal True. idtac "theorem PrimitivesReal.pow_derivative". Abort. Print Assumptions PrimitivesReal.pow_derivative.
Goal True. idtac "theorem PrimitivesReal.pow_nat_derivative". Abort. Print Assumptions PrimitivesReal.pow_nat_derivative.
Goal True. idtac "theorem PrimitivesReal.exp_derivative". Abort. Print Assumptions PrimitivesReal.exp_derivative.
Goal True. idtac "theorem PrimitivesReal.expm1_derivative". Abort. Print Assumptions PrimitivesReal.expm1_derivative.
Goal True. idtac "theorem PrimitivesReal.log_derivative". Abort. Print Assumptions PrimitivesReal.log_derivative.
Goal True. idtac "theorem PrimitivesReal.log1p_derivative". Abort. Print Assumptions PrimitivesReal.log1p_derivative.
Goal True. idtac "theorem PrimitivesReal.sqrt_derivative". Abort. Print Assumptions PrimitivesReal.sqrt_derivative.
Goal True. idtac "theorem PrimitivesReal.rsqrt_derivative". Abort. Print Assumptions PrimitivesReal.rsqrt_derivative.
Goal True. idtac "theorem PrimitivesReal.tanh_derivative". Abort. Print Assumptions PrimitivesReal.tanh_derivative.
Goal True. idtac "theorem PrimitivesReal.sigmoid_derivative". Abort. Print Assumptions PrimitivesReal.sigmoid_derivative.
Goal True. idtac "theorem PrimitivesReal.erf_derivative". Abort. Print Assumptions PrimitivesReal.erf_derivative.
Goal True. idtac "theorem PrimitivesReal.sin_derivative". Abort. Print Assumptions PrimitivesReal.sin_derivative.
Goal True. idtac "theorem PrimitivesReal.cos_derivative". Abort. Print Assumptions PrimitivesReal.cos_derivative.
Goal True. idtac "theorem PrimitivesReal.relu_derivative". Abort. Print Assumptions PrimitivesReal.relu_derivative.
Goal True. idtac "theorem PrimitivesReal.abs_derivative". Abort. Print Assumptions PrimitivesReal.abs_derivative.
Goal True. idtac "theorem PrimitivesReal.maximum_derivative". Abort. Print Assumptions PrimitivesReal.maximum_derivative.
Goal True. idtac "theorem PrimitivesReal.minimum_derivative". Abort. Print Assumptions PrimitivesReal.minimum_derivative.
Goal True. idtac "theorem PrimitivesReal.where_derivative". Abort. Print Assumptions PrimitivesReal.where_derivative.
Goal True. idtac "theorem PrimitivesReal.cast_derivative". Abort. Print Assumptions PrimitivesReal.cast_derivative.
Goal True. idtac "theorem PrimitivesReal.sign_derivative". Abort. Print Assumptions PrimitivesReal.sign_derivative.
Goal True. idtac "theorem PrimitivesReal.reshape_derivative". Abort. Print Assumptions PrimitivesReal.reshape_derivative.
Goal True. idtac "theorem PrimitivesReal.transpose_derivative". Abort. Print Assumptions PrimitivesReal.transpose_derivative.
Goal True. idtac "theorem PrimitivesReal.broadcast_derivative". Abort. Print Assumptions PrimitivesReal.broadcast_derivative.
Goal True. idtac "theorem PrimitivesReal.slice_derivative". Abort. Print Assumptions PrimitivesReal.slice_derivative.
Goal True. idtac "theorem PrimitivesReal.pad_derivative". Abort. Print Assumptions PrimitivesReal.pad_derivative.
Goal True. idtac "theorem PrimitivesReal.flip_derivative". Abort. Print Assumptions PrimitivesReal.flip_derivative.
Goal True. idtac "theorem PrimitivesReal.concat_derivative". Abort. Print Assumptions PrimitivesReal.concat_derivative.
Goal True. idtac "theorem PrimitivesReal.sum_derivative". Abort. Print Assumptions PrimitivesReal.sum_derivative.
Goal True. idtac "theorem PrimitivesReal.cumsum_derivative". Abort. Print Assumptions PrimitivesReal.cumsum_derivative.
Goal True. idtac "theorem PrimitivesReal.sum_pool_derivative". Abort. Print Assumptions PrimitivesReal.sum_pool_derivative.
Goal True. idtac "theorem PrimitivesReal.gather_derivative". Abort. Print Assumptions PrimitivesReal.gather_derivative.
Goal True. idtac "theorem PrimitivesReal.scatter_add_derivative". Abort. Print Assumptions PrimitivesReal.scatter_add_derivative.
Goal True. idtac "theorem PrimitivesReal.gather_along_derivative". Abort. Print Assumptions PrimitivesReal.gather_along_derivative.
Goal True. idtac "theorem PrimitivesReal.scatter_along_derivative". Abort. Print Assumptions PrimitivesReal.scatter_along_derivative.
Goal True. idtac "theorem PrimitivesReal.max_pool_derivative". Abort. Print Assumptions PrimitivesReal.max_pool_derivative.
Goal True. idtac "theorem PrimitivesReal.dot_general_derivative". Abort. Print Assumptions PrimitivesReal.dot_general_derivative.
Goal True. idtac "theorem PrimitivesReal.conv_derivative". Abort. Print Assumptions PrimitivesReal.conv_derivative.
Goal True. idtac "theorem Reductions.logsumexp_derivative". Abort. Print Assumptions Reductions.logsumexp_derivative.
Goal True. idtac "theorem Reductions.prod_derivative". Abort. Print Assumptions Reductions.prod_derivative.
Goal True. idtac "theorem Reductions.extreme_derivative". Abort. Print Assumptions Reductions.extreme_derivative.
Goal True. idtac "theorem Reductions.max_derivative". Abort. Print Assumptions Reductions.max_derivative.
Goal True. idtac "theorem Reductions.min_derivative". Abort. Print Assumptions Reductions.min_derivative.

(** * A worked example *)
Goal True. idtac "theorem Network.network_gradient". Abort. Print Assumptions Network.network_gradient.
