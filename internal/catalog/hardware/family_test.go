package hardware

import "testing"

func TestFamilyIsTypeWithoutSize(t *testing.T) {
	for _, c := range [][3]string{
		{"aws", "c7a.2xlarge", "c7a"}, {"aws", "m7i-flex.large", "m7i-flex"}, {"aws", "u-6tb1.metal", "u-6tb1"},
		{"gcp", "n2d-standard-8", "n2d"}, {"gcp", "tpu-v3-8", "tpu-v3"}, {"gcp", "a2-highgpu-1g", "a2"},
		{"azure", "Standard_D4as_v5", "Dasv5"}, {"azure", "Standard_NC24ads_A100_v4", "NCadsA100v4"},
		{"azure", "Standard_E4-2s_v3", "Esv3"}, {"lambda", "gpu_8x_h100_sxm5", "gpu_h100_sxm5"},
	} {
		if got := Family(c[0], c[1]); got != c[2] {
			t.Errorf("%s %s is %s, want %s", c[0], c[1], got, c[2])
		}
	}
	if !IsFamily("Dasv5", "das_v5") || IsFamily("Dasv5", "Dadsv5") {
		t.Error("underscores or letters")
	}
}

func TestCPUHasNameOfItsGeneration(t *testing.T) {
	for _, c := range []struct {
		cpu, name string
		is        bool
	}{
		{"genoa/core", "genoa", true}, {"turin-fast/core", "Turin", true}, {"turin-fast/core", "turin-fast/core", true},
		{"shared-milan", "milan", true}, {"graviton4", "graviton3", false}, {"", "milan", false},
	} {
		if IsCPU(c.cpu, c.name) != c.is {
			t.Errorf("%s is %s: %v", c.cpu, c.name, !c.is)
		}
	}
}
