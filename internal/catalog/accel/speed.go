package accel

import (
	"strconv"
	"strings"
)

// speeds has the TFLOPS of one device in dense half precision (FP16 or BF16, on tensor cores if it has them), from
// the vendors' data sheets.
var speeds = map[string]float64{
	"A2": 18, "A10": 125, "A10G": 70, "A30": 165, "A40": 150, "A100": 312, "A100-80GB": 312,
	"A4000": 77, "A5000": 111, "A6000": 155,
	"B200": 2250, "GB200": 2500, "GH200": 990, "H100": 990, "H100-MEGA": 990, "H200": 990,
	"Gaudi2": 432, "Gaudi3": 1835, "Inferentia2": 190, "Trainium": 190, "Trainium2": 667,
	"K80": 8.7, "M60": 9.6, "P4": 5.5, "P40": 11.8, "P100": 21, "V100": 125, "V100-32GB": 125,
	"L4": 121, "L40": 181, "L40S": 362, "T4": 65, "T4g": 65,
	"MI100": 185, "MI210": 181, "MI250": 362, "MI300X": 1307, "MI325X": 1307,
	"RTX3090": 71, "RTX4090": 165, "RTX5090": 210, "RTX6000-Ada": 182,
}

// chips has the TFLOPS in BF16 of one chip of each version of Google's TPUs, and the number of cores per chip as
// slice names count them.
var chips = map[string]struct{ tflops, cores float64 }{
	"v2": {45, 2}, "v3": {123, 2}, "v4": {275, 2}, "v5litepod": {197, 1}, "v5p": {459, 2}, "v6e": {918, 1},
}

// TFLOPS returns the speed of one accelerator in dense half precision by its vendor's data sheet; for a TPU, the
// speed of the whole slice. It returns 0 if the speed is unknown. Programs reach only a part of it; the ratio of two
// speeds is a first guess of how much longer a program takes on one accelerator than on the other.
func TFLOPS(name string) float64 {
	if rest, ok := strings.CutPrefix(name, "tpu-"); ok {
		version, size, _ := strings.Cut(rest, "-")
		cores, err := strconv.Atoi(size)
		c, known := chips[version]
		if err != nil || !known || cores <= 0 {
			return 0
		}
		return c.tflops * float64(cores) / c.cores
	}
	return speeds[name]
}
