package bidding

import "golang.org/x/sys/cpu"

// multiplyAVX is multiplyGo with AVX2 and fused multiply-add. It does not check the lengths of the slices.
//
//go:noescape
func multiplyAVX(dst, pt, u *float32, n, stride int)

// multiply computes a tile of u · pt: see multiplyGo.
func multiply(dst, pt, u []float32, n, stride int) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		multiplyGo(dst, pt, u, n, stride)
		return
	}
	_, _, _ = dst[(tile-1)*stride+lanes-1], pt[(n-1)*stride+lanes-1], u[(tile-1)*stride+n-1]
	multiplyAVX(&dst[0], &pt[0], &u[0], n, stride)
}
