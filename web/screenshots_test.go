package web_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "folder to which TestScreenshots writes a picture of each page")

// TestScreenshots writes each page of a running, a failed and an infeasible job, and the other pages, at the width of a
// desktop and of a phone, light and dark: go test ./web -run TestScreenshots -screenshots DIR
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-screenshots names no folder")
	}
	if err := os.MkdirAll(*screenshots, 0o750); err != nil {
		t.Fatal(err)
	}
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatal("axe-core is not installed: run scripts/web-tools.sh")
	}
	w, _, pages := furnished(t)
	b := open(t, w).visit("")
	id := regexp.MustCompile(`-[a-z0-9]{6}\b`)
	for hash, shown := range pages {
		name := strings.Trim(id.ReplaceAllString(strings.NewReplacer("#/", "", "/", "-").Replace(hash), ""), "-")
		for _, width := range []int64{1440, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.as(width, 900, scheme).anew(hash).seen(shown)
				b.run(chromedp.Sleep(300 * time.Millisecond)) // for the eye: transitions
				png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				file := fmt.Sprintf("%s-%d-%s.png", cmp.Or(name, "jobs"), width, scheme)
				if err := os.WriteFile(filepath.Join(*screenshots, file), png, 0o600); err != nil {
					t.Fatal(err)
				}
				b.axe(file, string(axe))
			}
		}
	}
}
