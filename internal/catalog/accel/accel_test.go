package accel

import (
	"errors"
	"strings"
	"testing"
)

func TestNormalizeMapsEverySpellingToOneName(t *testing.T) {
	for name, spellings := range map[string][]string{
		"V100":            {"V100", "v100", "nvidia-v100", "Tesla V100", "nvidia-tesla-v100", "NVIDIA_TESLA_V100", "Tesla-V100-SXM2-16GB", "V100-16GB"},
		"V100-32GB":       {"v100-32gb", "V100 32GB", "Tesla-V100-SXM2-32GB"},
		"A100":            {"A100", "A100-40GB", "nvidia-tesla-a100", "NVIDIA-A100-SXM4-40GB"},
		"A100-80GB":       {"A100-80GB", "a100-80gb", "nvidia-a100-80gb", "NVIDIA-A100-SXM4-80GB", "A100 80GB PCIe"},
		"A10G":            {"a10g", "NVIDIA-A10G", " A10G "},
		"H100":            {"H100", "nvidia-h100-80gb", "NVIDIA-H100-80GB-HBM3"},
		"H100-MEGA":       {"H100-MEGA", "nvidia-h100-mega-80gb"},
		"H200":            {"h200", "nvidia-h200-141gb"},
		"T4":              {"t4", "Tesla-T4", "nvidia-tesla-t4"},
		"T4g":             {"T4G", "t4g"},
		"RTX6000":         {"RTX 6000", "RTX6000", "Quadro RTX 6000", "rtx-6000"},
		"RTX6000-Ada":     {"RTX6000-Ada", "RTX 6000 Ada", "rtx 6000 ada generation"},
		"RTX-PRO-6000":    {"RTX PRO 6000", "nvidia-rtx-pro-6000"},
		"A6000":           {"A6000", "RTX A6000", "nvidia-rtx-a6000"},
		"Radeon-Pro-V520": {"Radeon Pro V520", "V520"},
		"MI300X":          {"mi300x", "AMD Instinct MI300X"},
		"Inferentia2":     {"Inferentia2", "aws-inferentia2"},
		"Trainium":        {"trainium", "AWS Trainium"},
		"tpu-v3-8":        {"tpu-v3-8", "tpuv3-8", "google-tpuv3-8", "TPU v3-8", "v3-8", "TPU_V3_8"},
		"tpu-v5litepod-4": {"tpu-v5litepod-4", "tpu-v5e-4", "v5litepod-4", "tpuv5e-4"},
		"tpu-v5p-12288":   {"tpu-v5p-12288", "V5P-12288"},
		"tpu-v6e-1":       {"tpu-v6e-1", "v6e-1"},
	} {
		for _, spelling := range spellings {
			got, err := Normalize(spelling)
			if err != nil || got != name {
				t.Errorf("Normalize(%q) = %q, %v; want %q", spelling, got, err, name)
			}
		}
	}
}

func TestNormalizeSuggestsForUnknownNames(t *testing.T) {
	for spelling, want := range map[string]string{
		"V10O":          `unknown accelerator "V10O"; did you mean V100?`,
		"v1000":         `unknown accelerator "v1000"; did you mean V100`,
		"H100-SXM":      `unknown accelerator "H100-SXM"; did you mean H100`,
		"L4S":           `did you mean L4`,
		"tpu-v3":        `did you mean tpu-v3-8`,
		"p3":            `"p3" is a family of machines, not an accelerator: it carries V100`,
		"a2-highgpu":    `it carries A100`,
		"abacus of yew": `unknown accelerator "abacus of yew"`,
		"":              `unknown accelerator ""`,
	} {
		_, err := Normalize(spelling)
		var unknownErr *UnknownError
		if !errors.As(err, &unknownErr) {
			t.Errorf("Normalize(%q): %v, want an *UnknownError", spelling, err)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Normalize(%q) says %q, want it to contain %q", spelling, err, want)
		}
	}
}

func TestNormalizeIsIdempotentOnCanonicalNames(t *testing.T) {
	for _, name := range Names() {
		if got, err := Normalize(name); err != nil || got != name {
			t.Errorf("Normalize(%q) = %q, %v", name, got, err)
		}
	}
}

func TestSpellingsAreUnambiguous(t *testing.T) {
	owner := make(map[string]string)
	for _, m := range models {
		for _, key := range append([]string{squeeze(m.name)}, m.aliases...) {
			if other, taken := owner[key]; taken {
				t.Errorf("%q is both %s and %s", key, other, m.name)
			}
			owner[key] = m.name
			if squeeze(key) != key {
				t.Errorf("alias %q of %s can never match: it squeezes to %q", key, m.name, squeeze(key))
			}
		}
	}
}

func TestFamiliesNameCanonicalAccelerators(t *testing.T) {
	for family, carried := range families {
		if got, err := Normalize(carried); err != nil || got != carried {
			t.Errorf("family %s carries %q, which is not canonical", family, carried)
		}
		if _, err := Normalize(family); err == nil {
			t.Errorf("family %s is also an accelerator", family)
		}
	}
}

func TestParseReadsCounts(t *testing.T) {
	for in, want := range map[string]Spec{
		"V100":         {"V100", 1},
		"V100:8":       {"V100", 8},
		"tesla-v100:4": {"V100", 4},
		"A10:0.5":      {"A10", 0.5},
		"tpu-v3-8":     {"tpu-v3-8", 1},
		"tpu-v3-8:1":   {"tpu-v3-8", 1},
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"V100:", "V100:0", "V100:-1", "V100:NaN", "V100:+Inf", "V100:many", "V100:1:2", "nope:1"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"V100", "nvidia-tesla-v100", "tpu-v3-8", "RTX 6000", "", "p3", "tpu-v99999999999999999999-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Normalize(s)
		if err != nil {
			return
		}
		again, err := Normalize(name)
		if err != nil || again != name {
			t.Fatalf("Normalize(%q) = %q, which normalises to %q, %v", s, name, again, err)
		}
	})
}
