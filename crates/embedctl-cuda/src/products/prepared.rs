//! A product as cuBLASLt describes it: the operation and its matrices, for a number of tokens.

use std::ffi::{c_int, c_void};
use std::ptr;

use embedctl_common::error::Result;

use super::{Operands, ProductShape, Products, WORKSPACE, check};
use crate::CardElement;
use crate::library::{Algorithm, DevicePointer, Heuristic, Object};
use crate::memory::CardStream;

// `cudaDataType_t`.
const R_32F: c_int = 0;
const R_16F: c_int = 2;
const R_16BF: c_int = 14;
// `cublasComputeType_t`.
const COMPUTE_32F: c_int = 68;
const COMPUTE_32F_FAST_TF32: c_int = 77;
// `cublasLtMatmulDescAttributes_t`.
const TURN_FIRST: c_int = 3;
const EPILOGUE: c_int = 7;
const BIAS: c_int = 8;
const BIAS_TYPE: c_int = 26;
// `cublasLtEpilogue_t`.
const EPILOGUE_BIAS: c_int = 4;
// `cublasLtMatmulPreferenceAttributes_t`, and its scheme without sums that are split.
const MOST_WORKSPACE: c_int = 1;
const REDUCTIONS: c_int = 3;
/// Of the four matrices: the bytes by which their addresses can be divided.
const ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
const NO_REDUCTION: u32 = 0;

/// The descriptions of a product for a number of tokens.
pub(super) struct Prepared<'a> {
    products: &'a Products,
    shape: ProductShape,
    operation: Object,
    layouts: [Object; 3],
}

impl<'a> Prepared<'a> {
    pub(super) fn new(
        products: &'a Products,
        shape: ProductShape,
        tokens: usize,
        bias: DevicePointer,
    ) -> Result<Self> {
        let functions = products.functions();
        let element = kind_of(products.element);
        let result = if shape.is_wide { R_32F } else { element };
        let compute = match (products.element, products.tf32) {
            (CardElement::F32, true) => COMPUTE_32F_FAST_TF32,
            _ => COMPUTE_32F,
        };
        let mut made = Self {
            products,
            shape,
            operation: ptr::null_mut(),
            layouts: [ptr::null_mut(); 3],
        };
        let leading = |stride: usize| i64::try_from(stride).unwrap_or(i64::MAX);
        // cuBLASLt's matrices are column by column: a row-major `[tokens, width]` is its `[width, tokens]`.
        let forms = [
            (element, shape.inputs, shape.outputs, shape.w_stride),
            (element, shape.inputs, tokens, shape.x_stride),
            (result, shape.outputs, tokens, shape.y_stride),
        ];
        // SAFETY: pointers lead to values of the types and sizes that the attributes have.
        unsafe {
            let status = (functions.operation)(&raw mut made.operation, compute, R_32F);
            check(status, "describe a product")?;
            made.set(TURN_FIRST, &1_i32)?;
            if shape.has_bias {
                made.set(EPILOGUE, &EPILOGUE_BIAS)?;
                made.set(BIAS_TYPE, &result)?;
                made.set(BIAS, &bias)?;
            }
            for (layout, (kind, rows, columns, stride)) in made.layouts.iter_mut().zip(forms) {
                let (rows, columns) = (rows as u64, columns as u64);
                let status = (functions.layout)(layout, kind, rows, columns, leading(stride));
                check(status, "describe a matrix")?;
            }
        }
        Ok(made)
    }

    /// # Safety
    /// The attribute has this type.
    unsafe fn set<T>(&self, attribute: c_int, value: &T) -> Result<()> {
        let value: *const T = value;
        let set = self.products.functions().set_operation;
        // SAFETY: as the caller says.
        let status = unsafe {
            set(
                self.operation,
                attribute,
                value.cast::<c_void>(),
                size_of::<T>(),
            )
        };
        check(status, "describe a product")
    }

    /// The algorithms that cuBLASLt proposes, the most promising first.
    pub(super) fn proposed(&self, count: usize) -> Result<Vec<Algorithm>> {
        let functions = self.products.functions();
        let [w, x, y] = self.layouts;
        let none = Heuristic {
            algorithm: [0; 8],
            workspace: 0,
            state: 0,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut found = vec![none; count];
        let mut number = 0;
        let mut preference = ptr::null_mut();
        // SAFETY: as for the descriptions; there is room for `count` results.
        let status = unsafe {
            check(
                (functions.preference)(&raw mut preference),
                "choose an algorithm",
            )?;
            let set = |attribute: c_int, value: *const c_void, bytes: usize| {
                (functions.set_preference)(preference, attribute, value, bytes)
            };
            let mut status = set(MOST_WORKSPACE, (&raw const WORKSPACE_BYTES).cast(), 8);
            if status == 0 {
                status = set(REDUCTIONS, (&raw const NO_REDUCTION_MASK).cast(), 4);
            }
            let [of_w, of_x, of_y] = self.shape.alignments(self.products.element.bytes());
            for (attribute, bytes) in ALIGNMENTS.into_iter().zip([of_w, of_x, of_y, of_y]) {
                let bytes = bytes as u32;
                if status == 0 {
                    status = set(attribute, (&raw const bytes).cast(), 4);
                }
            }
            if status == 0 {
                status = (functions.heuristic)(
                    self.products.handle,
                    self.operation,
                    w,
                    x,
                    y,
                    y,
                    preference,
                    c_int::try_from(count).unwrap_or(1),
                    found.as_mut_ptr(),
                    &raw mut number,
                );
            }
            (functions.destroy_preference)(preference);
            status
        };
        check(status, "choose an algorithm")?;
        found.truncate(usize::try_from(number).unwrap_or(0));
        let usable = found.into_iter().filter(|it| it.state == 0);
        Ok(usable.map(|it| it.algorithm).collect())
    }

    pub(super) fn run(
        &self,
        stream: &CardStream,
        workspace: DevicePointer,
        algorithm: &Algorithm,
        operands: Operands,
    ) -> Result<()> {
        let [w, x, y] = self.layouts;
        let one = 1.0;
        let (base, factor) = match self.shape.has_base {
            true => (operands.base, 1.0),
            false => (operands.y, 0.0),
        };
        // SAFETY: the matrices have the forms that are described; their owners keep them until the stream was waited for.
        let status = unsafe {
            (self.products.functions().multiply)(
                self.products.handle,
                self.operation,
                &raw const one,
                operands.w,
                w,
                operands.x,
                x,
                &raw const factor,
                base,
                y,
                operands.y,
                y,
                algorithm,
                workspace,
                WORKSPACE,
                stream.object,
            )
        };
        check(status, "multiply")
    }
}

static WORKSPACE_BYTES: usize = WORKSPACE;
static NO_REDUCTION_MASK: u32 = NO_REDUCTION;

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        let functions = self.products.functions();
        // SAFETY: what is there was made once, and is destroyed once.
        unsafe {
            if !self.operation.is_null() {
                (functions.destroy_operation)(self.operation);
            }
            for layout in self.layouts.into_iter().filter(|it| !it.is_null()) {
                (functions.destroy_layout)(layout);
            }
        }
    }
}

/// The type of a matrix's values.
fn kind_of(element: CardElement) -> c_int {
    match element {
        CardElement::F32 => R_32F,
        CardElement::F16 => R_16F,
        CardElement::Bf16 => R_16BF,
    }
}
