// The style and the script of a page. Both are small, and their digests stand in the page's security policy: no other style and no other
// script takes effect in it.
#include "src/report/page.h"

namespace perigee {

const char* const kPageStyle = R"css(
:root{--page:#f6f7f9;--card:#fff;--ink:#16191d;--soft:#545b66;--rule:#dfe3e8;--accent:#0b5cad;--shade:#eef2f6;
--c0:#0b62a8;--c1:#b8440a;--c2:#00795a;--c3:#a3417f;--c4:#8a5d00;--c5:#5a4fcf;--c6:#5d6672;--good:#0a6b3f;--warn:#8a4b00;--bad:#b3261e;--heat:11,98,168}
@media (prefers-color-scheme:dark){:root{--page:#0f1216;--card:#171b21;--ink:#e8ebef;--soft:#a3adba;--rule:#2c333d;--accent:#7ab8ff;--shade:#1f252d;
--c0:#6cb6ff;--c1:#ff9a63;--c2:#4fd6a8;--c3:#f29ad0;--c4:#e8bd4f;--c5:#b3a8ff;--c6:#b4bdc9;--good:#5fd39a;--warn:#f0b35e;--bad:#ff8a80;--heat:80,160,240}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}
.skip{position:absolute;left:-999px;top:0;background:var(--card);padding:.6rem 1rem;z-index:9}.skip:focus{left:1rem}
header,nav ul,main,footer{max-width:1120px;margin:0 auto;padding:0 24px}
header{padding-top:36px;padding-bottom:12px}
header p{margin:0;color:var(--soft)}
h1{font-size:1.9rem;line-height:1.2;letter-spacing:-.02em;margin:.1rem 0 .5rem;font-weight:650}
h2{font-size:1.2rem;letter-spacing:-.01em;margin:0 0 14px;font-weight:650}
h3{font-size:.95rem;margin:22px 0 8px;font-weight:650}
.kind{font-size:.8rem;letter-spacing:.08em;text-transform:uppercase}
.badge{display:inline-block;font-size:.85rem;font-weight:600;border:1px solid currentColor;border-radius:99px;padding:1px 11px;white-space:nowrap}
.badge.good{color:var(--good)}.badge.warn{color:var(--warn)}.badge.bad{color:var(--bad)}
nav{position:sticky;top:0;background:var(--page);border-bottom:1px solid var(--rule);z-index:5}
nav ul{display:flex;flex-wrap:wrap;gap:2px 20px;list-style:none;padding-top:9px;padding-bottom:9px;font-size:.88rem}
nav a{text-decoration:none;color:var(--soft)}nav a:hover{color:var(--accent);text-decoration:underline}
main{display:block;padding-top:20px}
section{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:22px 24px;margin:0 0 18px;scroll-margin-top:56px}
section.empty{padding:14px 24px;background:none}section.empty h2{font-size:1rem;margin:0 0 2px}section.empty p{margin:0;color:var(--soft)}
footer{color:var(--soft);font-size:.85rem;padding-bottom:40px}
.note{color:var(--soft);font-size:.9rem;margin:8px 0}
.alert{border-left:4px solid var(--bad);background:var(--shade);padding:10px 14px;white-space:pre-wrap;border-radius:4px;margin:0 0 16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:1px;background:var(--card);border:1px solid var(--rule);border-radius:10px;overflow:hidden;margin:0 0 20px}
.tiles div{outline:1px solid var(--rule);padding:12px 16px;display:flex;flex-direction:column}
.tiles dt{color:var(--soft);font-size:.82rem}.tiles dd{margin:2px 0 0;font-size:1.4rem;font-weight:600;letter-spacing:-.02em;line-height:1.25;font-variant-numeric:tabular-nums}
.facts{margin:0;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:0 36px}
.facts div{display:grid;grid-template-columns:8.5em minmax(0,1fr);gap:10px;padding:5px 0;border-bottom:1px solid var(--rule)}
.facts dt{color:var(--soft)}.facts dd{margin:0;overflow-wrap:anywhere}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.86em}
pre{background:var(--shade);border-radius:8px;padding:14px 16px;margin:0;overflow:auto;max-height:480px;tab-size:2}
.scroll{overflow-x:auto;margin:0 0 6px;position:relative}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;min-width:min(100%,320px)}
caption{text-align:left;color:var(--soft);padding:0 0 6px;font-size:.86rem}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--rule);vertical-align:top;font-weight:400}
thead th{color:var(--soft);font-size:.84rem;border-bottom-color:var(--soft);vertical-align:bottom}
tbody th{font-weight:550}.n{text-align:right;white-space:nowrap}th.n:last-child,td.n:last-child{padding-right:2px}
tr.total th,tr.total td{border-top:1px solid var(--soft);font-weight:600}
.best{font-weight:650}.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:24px 28px}
.squares{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:24px 28px}
figure{margin:0;min-width:0;position:relative}figure.square{max-width:480px}
figcaption{font-weight:600;font-size:.95rem;margin:0 0 4px}
svg.plot{display:block;width:100%;height:auto;overflow:visible}
svg text{fill:var(--soft);font-size:14px;font-family:inherit}
.tick.y{text-anchor:end;dominant-baseline:central}.tick.x,.label{text-anchor:middle}.label{fill:var(--ink)}
.grid{stroke:var(--rule);fill:none}.axis{stroke:var(--soft);fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:butt}
.series{--c:var(--c6)}.s0{--c:var(--c0)}.s1{--c:var(--c1)}.s2{--c:var(--c2)}.s3{--c:var(--c3)}.s4{--c:var(--c4)}.s5{--c:var(--c5)}.s6{--c:var(--c6)}
.series .line{stroke:var(--c)}.series .marks,.series .outside{fill:var(--c)}.cloud{fill-opacity:.55}
.s1 .line{stroke-dasharray:8 4}.s2 .line{stroke-dasharray:2.5 3}.s3 .line{stroke-dasharray:10 3 2 3}.s4 .line{stroke-dasharray:14 4}.s5 .line{stroke-dasharray:5 2}.s6 .line{stroke-dasharray:1.5 2}
.more .line{stroke-width:3.2}
.diagonal{stroke:var(--soft);stroke-dasharray:3 4;fill:none;stroke-width:1.3}
.cross{stroke:var(--soft);stroke-width:1}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:4px 0 0;padding:0;font-size:.88rem}
.legend li{display:flex;align-items:center;gap:7px;min-width:0}.key{width:34px;height:12px;flex:none}
.reading{display:block;min-height:1.6em;font-size:.86rem;color:var(--soft);font-variant-numeric:tabular-nums}
.choice{border:0;margin:0;padding:0;min-width:0}.choice legend{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.choice input{accent-color:var(--accent);margin:0 5px 0 0;vertical-align:-1px}.choice label{font-size:.84rem;color:var(--soft);margin-right:14px}
.choice .second{display:none}.choice input:nth-of-type(2):checked~.second{display:block}.choice input:nth-of-type(2):checked~.first{display:none}
details{margin-top:12px}summary{cursor:pointer;color:var(--accent);font-size:.9rem;width:max-content;max-width:100%}details[open] summary{margin-bottom:8px}
.matrix td,.matrix thead th{text-align:right;padding:5px 9px;border:1px solid var(--rule);white-space:nowrap;min-width:2.6em}
.matrix tbody th{padding-right:12px;border:0;max-width:16em}.matrix thead th{border:0}.matrix .right{outline:2px solid var(--soft);outline-offset:-2px;font-weight:650}
.h1{background:rgba(var(--heat),.07)}.h2{background:rgba(var(--heat),.13)}.h3{background:rgba(var(--heat),.2)}.h4{background:rgba(var(--heat),.27)}.h5{background:rgba(var(--heat),.34)}
.zero{color:var(--soft)}
.worst{display:grid;grid-template-columns:repeat(auto-fill,minmax(128px,1fr));gap:18px 16px;list-style:none;margin:0;padding:0}
.worst img{width:100%;max-width:150px;aspect-ratio:1;object-fit:contain;image-rendering:pixelated;background:#000;border-radius:6px;display:block;margin-bottom:6px}
.worst p{margin:0;font-size:.84rem;line-height:1.4}.worst .sub{color:var(--soft)}
.bar{display:block;width:100%;height:26px;border-radius:5px;margin:0 0 14px}.swatch{width:34px;height:12px;display:inline-block}.swatch rect{fill:var(--c0)}.meter{width:90px;height:8px;display:inline-block}.meter rect,.bar rect{fill:var(--c0)}.meter .rest{fill:var(--shade)}
svg .b0{fill:var(--c0)}svg .b1{fill:var(--c2)}svg .b2{fill:var(--c3)}svg .b3{fill:var(--c4)}svg .b4{fill:var(--c1)}svg .b5{fill:var(--c6)}
@media (max-width:640px){header,nav ul,main,footer{padding-left:14px;padding-right:14px}section{padding:16px 14px;border-radius:10px}section.empty{padding:12px 14px}
h1{font-size:1.5rem}nav{position:static}.facts div{grid-template-columns:8em minmax(0,1fr)}.wide svg text{font-size:21px}.tiles dd{font-size:1.2rem}}
@media print{:root{--page:#fff;--card:#fff}body{font-size:11pt}nav,.skip,.reading,.choice input,.choice label,summary{display:none}
section{border:0;padding:0;margin:0 0 16pt}section figure,tr,.tiles,.worst li,table:not(:has(tr:nth-child(12))){break-inside:avoid}h2,h3,figcaption,caption,thead{break-after:avoid}
.scroll{overflow:visible}pre{max-height:none;white-space:pre-wrap}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
)css";

const char* const kPageScript = R"js(
(() => {
  "use strict";
  const text = v => v !== 0 && (Math.abs(v) >= 1e6 || Math.abs(v) < 1e-4) ? v.toExponential(3) : String(+v.toPrecision(4));
  for (const svg of document.querySelectorAll("svg.plot")) {
    const axis = name => svg.dataset[name].split(" ").map(Number), x = axis("x"), y = axis("y");
    const value = (a, pixel) => {
      const v = a[0] + (pixel - a[2]) / (a[3] - a[2]) * (a[1] - a[0]);
      return a[4] ? 10 ** v : v;
    };
    const series = [...svg.querySelectorAll("g.series")].map(g => ({
      name: g.dataset.name,
      points: [...(g.querySelector(".line")?.getAttribute("d") || "").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map(m => [+m[1], +m[2]])
    })).filter(s => s.points.length);
    if (!series.length) continue;
    const cross = document.createElementNS("http://www.w3.org/2000/svg", "path"), reading = document.createElement("output");
    cross.setAttribute("class", "cross");
    reading.className = "reading";
    svg.append(cross);
    svg.after(reading);
    const xs = [...new Set(series.flatMap(s => s.points.map(p => p[0])))].sort((a, b) => a - b);
    let at = xs.length - 1;
    const nearest = (list, pixel) => list.reduce((best, each) => Math.abs(each - pixel) < Math.abs(best - pixel) ? each : best);
    const show = pixel => {
      cross.setAttribute("d", `M${pixel} ${y[2]}V${y[3]}`);
      const parts = series.map(s => {
        const p = s.points.reduce((best, each) => Math.abs(each[0] - pixel) < Math.abs(best[0] - pixel) ? each : best);
        return Math.abs(p[0] - pixel) < 20 ? `${s.name} ${text(value(y, p[1]))}` : "";
      }).filter(Boolean);
      reading.textContent = `${svg.querySelector(".label.x")?.textContent || "x"} ${text(value(x, pixel))}: ${parts.join(", ")}`;
    };
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect();
      const pixel = nearest(xs, (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width);
      at = xs.indexOf(pixel);
      show(pixel);
    });
    svg.addEventListener("keydown", event => {
      const step = {ArrowLeft: -1, ArrowRight: 1, Home: -xs.length, End: xs.length}[event.key];
      if (!step) return;
      at = Math.min(xs.length - 1, Math.max(0, at + step));
      show(xs[at]);
      event.preventDefault();
    });
    const leave = () => { cross.removeAttribute("d"); reading.textContent = ""; };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
  }
  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
})();
)js";

}  // namespace perigee
