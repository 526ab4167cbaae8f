"""What the page looks like and the little that it does."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --paper: #fff; --line: #afb8c1; --hint: #f3f5f7;
  --cause: #cf222e; --symptom: #8250df; --bystander: #57606a; --effect: #0969da; --near: #bf8700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --paper: #0d1117; --line: #3d444d;
  --hint: #161b22; --cause: #ff7b72; --symptom: #d2a8ff; --bystander: #9198a1; --effect: #79c0ff; --near: #e3b341; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1200px; padding: 0 16px 64px; }
header { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--line); padding: 8px 0;
  display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: baseline; z-index: 1; }
h1 { font-size: 18px; margin: 0; }
h2 { font-size: 16px; margin: 24px 0 8px; }
input { font: inherit; padding: 3px 8px; min-width: 16em; color: inherit; background: var(--hint);
  border: 1px solid var(--line); border-radius: 4px; }
a { color: var(--effect); }
:focus-visible { outline: 2px solid var(--near); outline-offset: 2px; }
code, svg text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
summary { cursor: pointer; padding: 4px 0; }
ul.rules { list-style: none; margin: 0; padding: 0 0 8px; }
ul.rules > li { border-top: 1px solid var(--line); padding: 6px 0; scroll-margin-top: 72px; }
li:target { background: var(--hint); }
.dim { color: var(--dim); }
.kind { font-size: 12px; padding: 0 6px; border: 1px solid currentColor; border-radius: 9px; }
.cause { color: var(--cause); } .symptom { color: var(--symptom); }
.bystander { color: var(--bystander); } .effect, .pack { color: var(--effect); }
.drawing { overflow: auto; max-height: 80vh; border: 1px solid var(--line); border-radius: 6px; margin: 8px 0; }
svg { display: block; }
svg rect { fill: var(--hint); stroke: currentColor; }
svg text { fill: var(--ink); }
svg .bystander rect { stroke-dasharray: 3 3; }
svg path { fill: none; stroke: var(--line); stroke-opacity: 0.8; }
svg path.excludes { stroke-dasharray: 4 4; }
svg path.near { stroke: var(--near); stroke-width: 2; stroke-opacity: 1; }
[hidden], .filtered .drawing { display: none; }
"""

SCRIPT = """
const filter = document.getElementById('filter'), count = document.getElementById('count');
const rules = [...document.querySelectorAll('li[data-text]')];
const groups = [...document.querySelectorAll('details.group')];
const open = new Set(groups.filter(group => group.open));
filter.addEventListener('input', () => {
  const words = filter.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let found = 0;
  document.body.classList.toggle('filtered', words.length > 0);
  for (const rule of rules) {
    rule.hidden = !words.every(word => rule.dataset.text.includes(word));
    found += !rule.hidden;
  }
  for (const group of groups) {
    const some = group.querySelector('li[data-text]:not([hidden])');
    group.hidden = words.length > 0 && !some;
    group.open = words.length > 0 ? Boolean(some) : open.has(group);
  }
  count.textContent = words.length ? found + ' of ' + rules.length : '';
});
const show = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.hidden) { filter.value = ''; filter.dispatchEvent(new Event('input')); }
  for (let at = target; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
  target.scrollIntoView();
  if (target.tagName === 'LI') target.focus({preventScroll: true});
};
addEventListener('hashchange', show);
show();
const mark = event => {
  const node = event.target.closest && event.target.closest('a.node');
  if (!node) return;
  const on = event.type === 'mouseover' || event.type === 'focusin';
  for (const path of node.closest('svg').querySelectorAll('path'))
    if (path.dataset.a === node.dataset.node || path.dataset.b === node.dataset.node) path.classList.toggle('near', on);
};
for (const name of ['mouseover', 'mouseout', 'focusin', 'focusout']) addEventListener(name, mark);
"""
