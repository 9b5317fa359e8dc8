//go:build !amd64

package bidding

// multiply computes a tile of u · pt: see multiplyGo.
func multiply(dst, pt, u []float32, n, stride int) { multiplyGo(dst, pt, u, n, stride) }
