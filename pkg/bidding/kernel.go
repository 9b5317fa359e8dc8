package bidding

// lanes is the number of columns that one pass of the kernel computes. Rows of tables are padded to it.
const lanes = 16

// tile is the number of rows that one pass of the kernel computes.
const tile = 4

// multiplyGo sets dst = u · pt for tile rows and lanes columns: dst[r·stride+j] = Σ_k u[r·stride+k]·pt[k·stride+j]
// for k < n. It is the portable version of the assembly kernel.
func multiplyGo(dst, pt, u []float32, n, stride int) {
	for r := range tile {
		var sum [lanes]float32
		for k, x := range u[r*stride : r*stride+n] {
			row := pt[k*stride : k*stride+lanes]
			for j, p := range row {
				sum[j] += x * p
			}
		}
		copy(dst[r*stride:r*stride+lanes], sum[:])
	}
}
