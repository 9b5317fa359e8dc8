package pool

import (
	"os"
	"runtime"
)

// ThisComputer returns the computer that this process runs on. Its memory is unknown: tasks do not run on Windows.
func ThisComputer() Computer {
	return Computer{CPUs: runtime.NumCPU(), Files: os.DirFS(`C:\`), Memory: func() float64 { return 0 }}
}
