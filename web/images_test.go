package web_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var images = flag.String("images", "", "folder to write the documentation's pictures of each page to: ../docs/images")

// colours is the number of colours in a picture of the documentation: a page has few.
const colours = 128

// few reduces a picture to its most common colours, which reduces its size to a third.
func few(m image.Image) *image.Paletted {
	counts := map[color.RGBA]int{}
	b := m.Bounds()
	at := func(x, y int) color.RGBA {
		c, _ := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
		return c
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	all := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(p, q color.RGBA) int { return counts[q] - counts[p] })
	var palette color.Palette
	for _, c := range all { // those that differ enough to be seen
		if len(palette) == colours {
			break
		}
		if len(palette) == 0 || apart(palette.Convert(c), c) {
			palette = append(palette, c)
		}
	}
	out := image.NewPaletted(b, palette)
	known := map[color.RGBA]uint8{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := at(x, y)
			i, ok := known[c]
			if !ok {
				i = uint8(palette.Index(c)) //nolint:gosec // below colours
				known[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	return out
}

func apart(near color.Color, c color.RGBA) bool {
	n, _ := color.RGBAModel.Convert(near).(color.RGBA)
	d := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	return d(n.R, c.R)+d(n.G, c.G)+d(n.B, c.B) > 12
}

// picture writes the visible part of a page, if the flag is set.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *images == "" {
		return
	}
	b.run(chromedp.Sleep(400 * time.Millisecond)) // for the eye: transitions
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few(m)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(*images, 0o750); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*images, name+".png"), out.Bytes(), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// TestEachPageHasAPicture writes the pictures of docs/dashboard.md: go test ./web -run Picture -images ../docs/images
func TestEachPageHasAPicture(t *testing.T) {
	w, job, _ := furnished(t)
	b := open(t, w).visit("").counted(`[data-job]`, 4)
	b.picture("jobs")
	b.click(`[data-job="`+job+`"] a`).counted(`[data-task]`, 6)
	b.click(`[data-task="2"]`).
		until(`document.querySelectorAll('.attempts li').length === 2 &&
			document.querySelectorAll('.detail .compact tbody tr').length > 0`)
	b.picture("job")
	b.click(`#tab-timeline`).counted(`.under canvas`, 2)
	b.click(`[data-bar="2.2"]`).seen(`.attempt-card`)
	b.picture("timeline")
	b.as(390, 844, "dark").seen(`.run`)
	b.picture("phone")
	b.as(1280, 900, "light").click(`#tab-money`).counted(`.pane canvas`, 1)
	b.picture("money")
	b.click(`#tab-story`).until(`document.querySelectorAll('.story li').length > 8`).picture("story")
	b.click(`#tab-plans`).until(`document.querySelectorAll('.choices details').length > 0`).picture("plans")
	b.click(`#tab-logs`).until(`document.querySelector('.log').textContent.includes('epoch 13')`)
	b.run(chromedp.SendKeys(chromedp.CSS(`input[aria-label="Find in the log"]`), "loss")).
		until(`document.querySelector('.pane').innerText.includes('of 2 matches')`)
	b.picture("logs")
	for _, page := range []struct{ name, shown string }{
		{"capacity", ".chart canvas"}, {"markets", ".chart canvas"}, {"clouds", ".cloud"},
	} {
		b.run(chromedp.Navigate(b.url+"/#/"+page.name), chromedp.Reload()).
			until(`document.querySelector('` + page.shown + `') !== null`)
		b.picture(page.name)
	}
	b.anew("#/plan").seen(`.source`)
	b.write(pipeline).click(`button[type="submit"]`).
		until(`document.querySelectorAll('[data-point]').length >= 2`)
	b.picture("plan")
}
