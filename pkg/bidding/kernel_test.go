package bidding

import (
	"math"
	"math/rand/v2"
	"testing"
)

// With a slice that is too short, the kernel would write into other memory.
func TestMultiplyPanicsOnShortSlices(t *testing.T) {
	const n, stride = 20, 32
	for short := range 4 {
		room := [3]int{(tile-1)*stride + lanes, (n-1)*stride + lanes, (tile-1)*stride + n}
		if short < 3 {
			room[short]--
		}
		dst, pt, u := make([]float32, room[0]), make([]float32, room[1]), make([]float32, room[2])
		refused := func() (refused bool) {
			defer func() { refused = recover() != nil }()
			multiply(dst[:room[0]:room[0]], pt[:room[1]:room[1]], u[:room[2]:room[2]], n, stride)
			return
		}()
		if refused != (short < 3) {
			t.Errorf("of %v elements: refused: %v", room, refused)
		}
	}
}

func TestMultiplyMatchesDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test
	for _, n := range []int{1, 2, 15, 16, 17, 24, 64} {
		stride := (n + lanes - 1) / lanes * lanes
		u, pt := make([]float32, tile*stride), make([]float32, n*stride)
		for i := range u {
			u[i] = rng.Float32()
		}
		for i := range pt {
			pt[i] = rng.Float32()
		}
		for j := 0; j < stride; j += lanes {
			want, got := make([]float32, tile*stride), make([]float32, tile*stride)
			multiplyGo(want[j:], pt[j:], u, n, stride)
			multiply(got[j:], pt[j:], u, n, stride)
			for i := range want {
				if math.Abs(float64(want[i]-got[i])) > 1e-4 {
					t.Fatalf("%d levels, element %d: %v, not %v", n, i, got[i], want[i])
				}
			}
		}
	}
}
