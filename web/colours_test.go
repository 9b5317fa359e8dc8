package web_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// People with each kind of colour blindness, and without, can tell the colours of the states apart that mean that a task does not
// run, from each other and from the other states. Every state also has its own sign.
func TestStatesCanBeToldApart(t *testing.T) {
	b := open(t, deployed(t)).visit("")
	for _, scheme := range []string{"light", "dark"} {
		b.as(1280, 900, scheme)
		found := eval[map[string]string](b, `(async () => {
			const { STATES } = await import('/assets/js/format.js');
			const { shapeOf } = await import('/assets/js/dom.js');
			if (new Set(STATES.map(shapeOf)).size < STATES.length) throw new Error('two states have the same sign');
			const style = getComputedStyle(document.documentElement);
			return Object.fromEntries([...STATES, 'surface'].map((name) => [name, style.getPropertyValue('--' + name).trim()]));
		})()`)
		colours := map[string]rgb{}
		for name, text := range found {
			colours[name] = parsed(t, text)
		}
		still := []string{"queued", "waiting", "cancelled"}
		for _, name := range still {
			if c := ratio(colours[name], colours["surface"]); c < 3 {
				t.Errorf("%s: %s has the contrast %.1f, less than 3", scheme, name, c)
			}
			for other, colour := range colours {
				least := 0.08
				if slices.Contains(still, other) {
					least = 0.1
				}
				for sight, seen := range sights {
					if d := distance(seen(colours[name]), seen(colour)); other != name && other != "surface" && d < least {
						t.Errorf("%s, %s: %s and %s are %.3f apart, less than %.2f", scheme, sight, name, other, d, least)
					}
				}
			}
		}
	}
}

// rgb is a colour in linear light, 0 to 1.
type rgb [3]float64

func parsed(t *testing.T, text string) rgb {
	t.Helper()
	var c [3]uint8
	if _, err := fmt.Sscanf(text, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		t.Fatalf("%q is no colour: %v", text, err)
	}
	var out rgb
	for i, v := range c {
		s := float64(v) / 255
		if out[i] = s / 12.92; s > 0.04045 {
			out[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return out
}

func times(m [3]rgb, c rgb) (out rgb) {
	for i, row := range m {
		out[i] = row[0]*c[0] + row[1]*c[1] + row[2]*c[2]
	}
	return out
}

// seeing returns how a kind of sight changes colours.
func seeing(m [3]rgb) func(rgb) rgb {
	return func(c rgb) rgb {
		out := times(m, c)
		for i, v := range out {
			out[i] = min(max(v, 0), 1)
		}
		return out
	}
}

// sights are the complete colour blindnesses of Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
// Color Vision Deficiency", 2009, severity 1.
var sights = map[string]func(rgb) rgb{
	"normal sight": seeing([3]rgb{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}),
	"protanopia": seeing([3]rgb{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
		{-0.003882, -0.048116, 1.051998}}),
	"deuteranopia": seeing([3]rgb{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
		{-0.011820, 0.042940, 0.968881}}),
	"tritanopia": seeing([3]rgb{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602},
		{0.004733, 0.691367, 0.303900}}),
}

// ratio is the contrast of WCAG 2.2.
func ratio(a, b rgb) float64 {
	light := func(c rgb) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05 }
	return max(light(a), light(b)) / min(light(a), light(b))
}

// distance is the Euclidean distance in Oklab (Björn Ottosson, "A perceptual color space for image processing", 2020).
func distance(a, b rgb) float64 {
	lab := func(c rgb) rgb {
		lms := times([3]rgb{{0.4122214708, 0.5363325363, 0.0514459929}, {0.2119034982, 0.6806995451, 0.1073969566},
			{0.0883024619, 0.2817188376, 0.6299787005}}, c)
		for i, v := range lms {
			lms[i] = math.Cbrt(v)
		}
		return times([3]rgb{{0.2104542553, 0.7936177850, -0.0040720468}, {1.9779984951, -2.4285922050, 0.4505937099},
			{0.0259040371, 0.7827717662, -0.8086757660}}, lms)
	}
	p, q := lab(a), lab(b)
	return math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])
}
