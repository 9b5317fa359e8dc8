// Command gen writes docs/drivers.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/drivers"
)

func main() {
	root := flag.String("root", ".", "the module's root folder")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	found, err := drivers.Find(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "drivers.md"), drivers.Page(found), 0o600)
}
