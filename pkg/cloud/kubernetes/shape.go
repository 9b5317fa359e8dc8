package kubernetes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Shape is the part of a node that a pod is given.
type Shape struct {
	Node   string  // the node's type, AnyNode where nodes have no label for it
	VCPU   float64 // at least 0.25, in quarters
	GiB    float64 // memory, in quarters
	GPUs   int64   // devices, or parts of them
	Part   string  // which parts: "shared", or MIG's "mig-1g.10gb"; empty is whole ones
	ofNode float64 // share of the node's price
}

// AnyNode is the type of nodes that name none.
const AnyNode = "node"

// Type is the offer's machine type: m5.xlarge_2x8, g5.xlarge_4x16x1 with a GPU, g5.xlarge_1x4x1-shared with a share of
// one, p4d.24xlarge_13x164x1-mig-1g.5gb with a part of one.
func (s Shape) Type() string {
	text := s.Node + "_" + number(s.VCPU) + "x" + number(s.GiB)
	if s.GPUs > 0 {
		text += "x" + strconv.FormatInt(s.GPUs, 10)
	}
	if s.Part != "" {
		text += "-" + s.Part
	}
	return text
}

// Share is which part of the node's price the shape costs: that of what it takes most of.
func (s Shape) Share() float64 { return s.ofNode }

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// ParseShape reads a machine type.
func ParseShape(text string) (s Shape, err error) {
	node, size, ok := cutLast(text, "_")
	size, share, shared := strings.Cut(size, "-")
	parts := strings.Split(size, "x")
	if shared && (len(parts) != 3 || resourceOf(share) == "") {
		return s, fmt.Errorf("machine type %.100q: %q is no share of a GPU", text, share)
	}
	if !ok || node == "" || len(parts) < 2 || len(parts) > 3 {
		return s, fmt.Errorf("machine type %.100q is not NODETYPE_CPUSxGIB or NODETYPE_CPUSxGIBxGPUS", text)
	}
	s.Node, s.Part = node, share
	for i, into := range []*float64{&s.VCPU, &s.GiB} {
		x, err := strconv.ParseFloat(parts[i], 64)
		if err != nil || !(x > 0 && x <= maxSize) {
			return s, fmt.Errorf("machine type %.100q: %q is no size", text, parts[i])
		}
		*into = x
	}
	if len(parts) == 3 {
		if s.GPUs, err = strconv.ParseInt(parts[2], 10, 16); err != nil || s.GPUs < 1 {
			return s, fmt.Errorf("machine type %.100q: %q is no number of GPUs", text, parts[2])
		}
	}
	return s, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// maxSize bounds vCPUs and GiB of a pod.
const maxSize = 1 << 20

// Memory of a shape, in GiB for one vCPU, is within these bounds unless it is all that the node has.
const leastGiB, mostGiB = 1, 16

// Shapes are the parts that a node is sold in: sizes of powers of two, and all of it. A node with GPUs is sold by them,
// each with its share of the rest.
func Shapes(node string, vcpu, gib float64, gpus int64) []Shape {
	vcpu, gib = quarters(vcpu), quarters(gib)
	if vcpu <= 0 || gib <= 0 {
		return nil
	}
	var shapes []Shape
	if gpus > 0 {
		for _, n := range steps(1, float64(gpus)) {
			part := n / float64(gpus)
			s := Shape{
				Node: node, VCPU: quarters(vcpu * part), GiB: quarters(gib * part), GPUs: int64(n), ofNode: part,
			}
			if s.VCPU > 0 && s.GiB > 0 {
				shapes = append(shapes, s)
			}
		}
		return shapes
	}
	for _, c := range steps(0.25, vcpu) {
		for _, m := range steps(0.5, gib) {
			if (m < c*leastGiB || m > c*mostGiB) && !(c == vcpu && m == gib) {
				continue
			}
			shapes = append(shapes, Shape{Node: node, VCPU: c, GiB: m, ofNode: max(c/vcpu, m/gib)})
		}
	}
	return shapes
}

// steps are the powers of two times least below most, and most.
func steps(least, most float64) (all []float64) {
	for x := least; x < most; x *= 2 {
		all = append(all, x)
	}
	return append(all, most)
}

func quarters(x float64) float64 { return math.Floor(x*4+1e-9) / 4 }
