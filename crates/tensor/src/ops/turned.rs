//! The transpose of a dense matrix, for products with it.

/// Rows and columns that are turned together: as many rows as find room in the same sets of the first-level
/// cache.
const TURNED: usize = 16;

/// The transpose of a matrix whose rows begin `stride` numbers from each other.
pub(super) fn turn(values: &[f32], [rows, columns]: [usize; 2], stride: usize) -> Vec<f32> {
    let mut output = vec![0.0; rows * columns];
    for top in (0..rows).step_by(TURNED) {
        let bottom = (top + TURNED).min(rows);
        for left in (0..columns).step_by(TURNED) {
            let right = (left + TURNED).min(columns);
            for row in (top..bottom).step_by(4) {
                for column in (left..right).step_by(4) {
                    if row + 4 <= bottom && column + 4 <= right {
                        turn_four((values, stride), [row, column], (&mut output, rows));
                    } else {
                        for (row, column) in (row..(row + 4).min(bottom))
                            .flat_map(|row| (column..right).map(move |column| (row, column)))
                        {
                            output[column * rows + row] = values[row * stride + column];
                        }
                    }
                }
            }
        }
    }
    output
}

/// Turns four rows and columns, in registers.
#[inline(always)]
fn turn_four(
    (values, stride): (&[f32], usize),
    [row, column]: [usize; 2],
    (output, rows): (&mut [f32], usize),
) {
    let mut block = [[0.0; 4]; 4];
    for (number, block) in block.iter_mut().enumerate() {
        block.copy_from_slice(&values[(row + number) * stride + column..][..4]);
    }
    for number in 0..4 {
        let turned = [block[0][number], block[1][number], block[2][number], block[3][number]];
        output[(column + number) * rows + row..][..4].copy_from_slice(&turned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        for (rows, columns, stride) in
            [(0, 3, 3), (1, 1, 1), (3, 5, 7), (16, 16, 16), (37, 50, 64), (64, 256, 256)]
        {
            let values: Vec<f32> = (0..rows * stride).map(|number| number as f32).collect();
            let turned = turn(&values, [rows, columns], stride);
            for (at, value) in turned.iter().enumerate() {
                assert_eq!(*value, values[at % rows * stride + at / rows], "{rows} x {columns}, number {at}");
            }
            assert_eq!(turned.len(), rows * columns);
        }
    }
}
