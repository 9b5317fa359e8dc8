package kubernetes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Shape is the part of a node that a pod gets.
type Shape struct {
	Node   string  // the node's type, AnyNode if nodes have no label for it
	VCPU   float64 // at least 0.25, in quarters
	GiB    float64 // memory, in quarters
	GPUs   int64   // devices, or parts of them
	Part   string  // kind of parts: "shared", or MIG's "mig-1g.10gb"; empty for whole GPUs
	ofNode float64 // share of the node's price
}

// AnyNode is the type of nodes without a type label.
const AnyNode = "node"

// Type returns the offer's machine type: m5.xlarge_2x8; g5.xlarge_4x16x1 with a GPU; g5.xlarge_1x4x1-shared with a
// share of a GPU; p4d.24xlarge_13x164x1-mig-1g.5gb with a MIG part.
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

// Share returns the share of the node's price that the shape costs: the largest share of a resource that it uses.
func (s Shape) Share() float64 { return s.ofNode }

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// ParseShape parses a machine type.
func ParseShape(text string) (s Shape, err error) {
	node, size, ok := cutLast(text, "_")
	size, share, shared := strings.Cut(size, "-")
	parts := strings.Split(size, "x")
	if shared && (len(parts) != 3 || resourceOf(share) == "") {
		return s, fmt.Errorf("machine type %.100q: %q is not a share of a GPU", text, share)
	}
	if !ok || node == "" || len(parts) < 2 || len(parts) > 3 {
		return s, fmt.Errorf("machine type %.100q is not NODETYPE_CPUSxGIB or NODETYPE_CPUSxGIBxGPUS", text)
	}
	s.Node, s.Part = node, share
	for i, into := range []*float64{&s.VCPU, &s.GiB} {
		x, err := strconv.ParseFloat(parts[i], 64)
		if err != nil || !(x > 0 && x <= maxSize) {
			return s, fmt.Errorf("machine type %.100q: %q is not a size", text, parts[i])
		}
		*into = x
	}
	if len(parts) == 3 {
		if s.GPUs, err = strconv.ParseInt(parts[2], 10, 16); err != nil || s.GPUs < 1 {
			return s, fmt.Errorf("machine type %.100q: %q is not a number of GPUs", text, parts[2])
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

// maxSize is the maximum of a pod's vCPUs and GiB.
const maxSize = 1 << 20

// Bounds of a shape's memory per vCPU, in GiB. The whole node is exempt.
const leastGiB, mostGiB = 1, 16

// Shapes returns the parts in which a node is sold: sizes in powers of two, and the whole node. A node with GPUs is
// sold by GPU, each with its share of the rest.
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

// steps returns least times the powers of two, below most, and then most.
func steps(least, most float64) (all []float64) {
	for x := least; x < most; x *= 2 {
		all = append(all, x)
	}
	return append(all, most)
}

func quarters(x float64) float64 { return math.Floor(x*4+1e-9) / 4 }
