package accel

import (
	"strconv"
	"strings"
)

// tpuGenerations maps the spellings of a TPU version to the spelling in canonical names. Google's API calls v5e
// "v5litepod".
var tpuGenerations = map[string]string{
	"2": "v2", "3": "v3", "4": "v4",
	"5e": "v5litepod", "5lite": "v5litepod", "5litepod": "v5litepod",
	"5p": "v5p", "6e": "v6e", "7x": "v7x",
}

// maxTPUSize is above the largest slice sold (12,288 cores).
const maxTPUSize = 1 << 20

// TPU is a TPU slice: Generation as in names (v3, v5litepod) and Size, which
// counts cores for v2, v3, v4 and v5p, and chips for v5litepod and v6e.
type TPU struct {
	Generation string
	Size       int
}

// String returns the canonical name: tpu-v3-8.
func (t TPU) String() string { return "tpu-" + t.Generation + "-" + strconv.Itoa(t.Size) }

// ParseTPU splits the name of a TPU, in any spelling that Normalize reads: tpu-v3-8, tpuv3-8, google-tpuv3-8, v3-8,
// TPU v5e-4. It returns false for all other texts.
func ParseTPU(s string) (TPU, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	s = strings.NewReplacer("_", "-", " ", "-").Replace(s)
	s = strings.TrimPrefix(s, "google-")
	s = strings.TrimPrefix(s, "cloud-")
	rest, named := strings.CutPrefix(s, "tpu")
	rest = strings.TrimPrefix(rest, "-")
	rest, versioned := strings.CutPrefix(rest, "v")
	if !named && !versioned {
		return TPU{}, false
	}
	version, size, ok := strings.Cut(rest, "-")
	generation, known := tpuGenerations[version]
	if !ok || !known || size == "" || size[0] == '0' || size[0] == '+' {
		return TPU{}, false
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > maxTPUSize {
		return TPU{}, false
	}
	return TPU{Generation: generation, Size: n}, true
}

func normalizeTPU(s string) (string, bool) {
	tpu, ok := ParseTPU(s)
	if !ok {
		return "", false
	}
	return tpu.String(), true
}
