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
		b.shoot(cmp.Or(name, "jobs"), string(axe), func() { b.anew(hash).seen(shown) })
	}
	b.shoot("plan-result", string(axe), func() {
		b.anew("#/plan").seen(`.source`).write(pipeline).click(`button[type="submit"]`).
			until(`document.querySelectorAll('[data-point]').length >= 2`)
	})
	empty := open(t, deployed(t)).visit("")
	for hash, shown := range map[string]string{"#/": ".code", "#/capacity": ".code", "#/markets": "main p"} {
		empty.shoot("empty-"+cmp.Or(strings.TrimPrefix(hash, "#/"), "jobs"), string(axe), func() { empty.anew(hash).seen(shown) })
	}
}

// shoot writes pictures of a page at both widths, light and dark, and checks each with axe-core.
func (b *browser) shoot(name, axe string, show func()) {
	b.t.Helper()
	for _, width := range []int64{1440, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.as(width, 900, scheme)
			show()
			b.run(chromedp.Sleep(300 * time.Millisecond)) // for the eye: transitions
			png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				b.t.Fatal(err)
			}
			file := fmt.Sprintf("%s-%d-%s.png", name, width, scheme)
			if err := os.WriteFile(filepath.Join(*screenshots, file), png, 0o600); err != nil {
				b.t.Fatal(err)
			}
			b.axe(file, axe)
		}
	}
}
