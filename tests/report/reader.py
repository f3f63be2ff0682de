"""What is asked of a page in the browser, as JavaScript. Each answer is a list of what is wrong."""

# Elements that reach beyond the window, unless a box around them scrolls.
OVERFLOW = """(() => {
  const wide = innerWidth, found = [];
  if (document.documentElement.scrollWidth > wide) found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  for (const each of document.querySelectorAll("body *")) {
    const box = each.getBoundingClientRect();
    if (box.width === 0 || each.closest(".scroll, pre, .skip, .hidden, legend, svg")) continue;
    if (box.right > wide + 1 || box.left < -1) found.push(`${each.tagName}.${each.className} from ${box.left} to ${box.right}`);
  }
  for (const each of document.querySelectorAll("svg.plot text")) {
    const box = each.getBoundingClientRect(), around = each.closest("section").getBoundingClientRect();
    if (box.width && (box.left < around.left - 1 || box.right > around.right + 1)) found.push(`label ${each.textContent}`);
  }
  return found.slice(0, 10);
})()"""

# Text needs a ratio of 4.5 to what is behind it (WCAG 2.1, 1.4.3), curves and marks one of 3 (1.4.11).
CONTRAST = """(() => {
  const parse = text => {
    const n = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = c => {
    const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
  const behind = each => {
    const chain = [];
    for (let at = each; at instanceof Element; at = at.parentElement) chain.push(parse(getComputedStyle(at).backgroundColor));
    return chain.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const each = node.parentElement;
    if (!node.textContent.trim() || each.closest("script, style, .skip, .hidden") || !each.getClientRects().length) continue;
    const style = getComputedStyle(each), back = behind(each);
    const ink = over(parse(each instanceof SVGElement ? style.fill : style.color), back), measured = ratio(ink, back);
    if (measured < 4.5) found.push(`${node.textContent.trim().slice(0, 30)}: ${measured.toFixed(2)}`);
  }
  for (const line of document.querySelectorAll(".series .line, .series .marks, .diagonal")) {
    const style = getComputedStyle(line), paint = line.classList.contains("marks") ? style.fill : style.stroke;
    const back = behind(line.closest("section")), measured = ratio(over(parse(paint), back), back);
    if (measured < 3) found.push(`${line.getAttribute("class")} ${paint}: ${measured.toFixed(2)}`);
  }
  return [...new Set(found)].slice(0, 10);
})()"""
