// Package accel names accelerators. Clouds, Kubernetes, drivers and users spell one GPU in many ways (V100,
// nvidia-tesla-v100, Tesla-V100-SXM2-16GB); Normalize maps every spelling to the one name that the catalogue, job
// files and plans use. It does not depend on the catalogue, so job readers can use it alone.
//
// The names are those of SkyPilot's catalogue. A bare A100, V100 or H100 is the 40 GB, 16 GB and 80 GB model; other
// sizes are part of the name (A100-80GB). A TPU is named by its slice as Google names its types: tpu-v3-8 is eight
// cores of version 3. The package has no availability and no prices.
package accel

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxNameLength bounds the work on hostile input. The longest real spelling has about thirty bytes.
const maxNameLength = 64

// UnknownError is the error for a spelling of no known accelerator.
type UnknownError struct {
	// Name is the unknown spelling.
	Name string
	// Suggestions are the canonical names that were probably meant, likeliest first.
	Suggestions []string
	// Family is set if Name is an instance family or machine series, such as p3. Suggestions then has the accelerator
	// of its machines.
	Family bool
}

func (e *UnknownError) Error() string {
	switch {
	case e.Family:
		return fmt.Sprintf("%q is a family of machines, not an accelerator: it carries %s", e.Name,
			strings.Join(e.Suggestions, ", "))
	case len(e.Suggestions) > 0:
		return fmt.Sprintf("unknown accelerator %q; did you mean %s?", e.Name, orList(e.Suggestions))
	default:
		return fmt.Sprintf("unknown accelerator %q", e.Name)
	}
}

// Normalize returns the canonical name for a spelling, ignoring case and the separators space, hyphen and underscore.
// It returns an *UnknownError for an unknown spelling.
func Normalize(spelling string) (string, error) {
	trimmed := strings.TrimSpace(spelling)
	if len(trimmed) > maxNameLength {
		return "", &UnknownError{Name: trimmed[:maxNameLength] + "…"}
	}
	if tpu, ok := normalizeTPU(trimmed); ok {
		return tpu, nil
	}
	if name, ok := spellings()[squeeze(trimmed)]; ok {
		return name, nil
	}
	if m := withCount.FindStringSubmatch(trimmed); m != nil { // A100x8: the count belongs after a colon
		if name, err := Normalize(m[1]); err == nil {
			return "", &UnknownError{Name: trimmed, Suggestions: []string{name + ":" + m[2]}}
		}
	}
	return "", unknown(trimmed)
}

var withCount = regexp.MustCompile(`^(.*\S)\s*[x*]\s*([1-9][0-9]*)$`)

// Spec is an accelerator and its count in a machine.
type Spec struct {
	Name  string
	Count float64
}

// String returns NAME:COUNT.
func (s Spec) String() string {
	return s.Name + ":" + strconv.FormatFloat(s.Count, 'f', -1, 64)
}

// Parse reads NAME or NAME:COUNT, as in V100:8. The default count is 1.
func Parse(s string) (Spec, error) {
	name, count, counted := strings.Cut(s, ":")
	canonical, err := Normalize(name)
	if err != nil {
		return Spec{}, err
	}
	if !counted {
		return Spec{Name: canonical, Count: 1}, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	if err != nil || !(n > 0) || n > maxCount {
		return Spec{}, fmt.Errorf("accelerator count %q of %s: want a number above 0", clip(count), canonical)
	}
	return Spec{Name: canonical, Count: n}, nil
}

// maxCount is far above the count of any machine.
const maxCount = 1 << 16

// squeeze reduces a spelling to the part that distinguishes models: lower case, no separators, no leading vendor or
// brand.
func squeeze(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range strings.ToLower(s) {
		switch r {
		case ' ', '-', '_', '\t':
		default:
			b.WriteRune(r)
		}
	}
	squeezed := b.String()
	for stripped := true; stripped; {
		stripped = false
		for _, brand := range brands {
			if rest, ok := strings.CutPrefix(squeezed, brand); ok && rest != "" {
				squeezed, stripped = rest, true
			}
		}
	}
	return squeezed
}

var brands = [...]string{"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "aws", "intel", "habana",
	"xilinx", "amazon"}

func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func clip(s string) string {
	if len(s) > maxNameLength {
		return s[:maxNameLength] + "…"
	}
	return s
}
