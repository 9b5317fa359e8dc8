package pool

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ThisComputer returns the computer that this process runs on.
func ThisComputer() Computer {
	return Computer{CPUs: runtime.NumCPU(), Files: os.DirFS("/"), Memory: func() float64 {
		bytes, err := unix.SysctlUint64("hw.memsize")
		if err != nil {
			return 0
		}
		return float64(bytes) / (1 << 30)
	}}
}
