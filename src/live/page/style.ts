/** The style of the live page. Colours are variables, dark ones by what the reader prefers; widths follow the window. */
export const STYLE = String.raw`
:root {
  color-scheme: light dark;
  --ground: #f5f6f8;
  --card: #ffffff;
  --line: #e3e6eb;
  --faint: #f0f2f5;
  --text: #171a21;
  --dim: #596273;
  --accent: #4f46e5;
  --accent-soft: #4f46e522;
  --good: #157f4b;
  --note: #7a6200;
  --bad: #bf2f2a;
  --bad-soft: #bf2f2a14;
  --shadow: 0 1px 2px #10182810;
  --mono: ui-monospace, SFMono-Regular, 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1015;
    --card: #151a21;
    --line: #252c36;
    --faint: #1b212a;
    --text: #e7eaf0;
    --dim: #96a0b0;
    --accent: #8f9bff;
    --accent-soft: #8f9bff2e;
    --good: #4ec98f;
    --note: #d8b84a;
    --bad: #ff8078;
    --bad-soft: #ff80781f;
    --shadow: none;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0;
  background: var(--ground);
  color: var(--text);
  font: 14px/1.45 system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', sans-serif;
  font-variant-numeric: tabular-nums;
}
h1, h2, p, ul, ol { margin: 0; padding: 0; font-size: inherit; font-weight: inherit; }
[hidden] { display: none !important; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 6px; }

button {
  font: inherit;
  color: inherit;
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: 8px;
  padding: 5px 12px;
  cursor: pointer;
}
button:hover { border-color: var(--dim); }
button[aria-pressed='true'], button[aria-current='true'] { background: var(--accent-soft); border-color: var(--accent); }
button:disabled { opacity: 0.5; cursor: default; }

.bar {
  position: sticky; top: 0; z-index: 2;
  display: flex; flex-wrap: wrap; align-items: center; gap: 8px 12px;
  padding: 10px 24px;
  background: var(--card);
  border-bottom: 1px solid var(--line);
}
.mark { width: 26px; height: 26px; flex: none; }
.mark rect { fill: #4f46e5; }
.mark path { fill: none; stroke: #fff; stroke-width: 2.4; stroke-linecap: round; stroke-linejoin: round; }
.bar h1 { font-size: 16px; font-weight: 650; letter-spacing: -0.01em; max-width: 40ch; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.link { display: inline-flex; align-items: center; gap: 6px; color: var(--dim); font-size: 13px; min-width: 0; }
.link i { width: 8px; height: 8px; flex: none; border-radius: 50%; background: var(--note); }
.link[data-state='up'] i { background: var(--good); animation: pulse 2.4s ease-out infinite; }
.link[data-state='down'] i { background: var(--bad); }
@keyframes pulse { 0% { box-shadow: 0 0 0 0 color-mix(in srgb, var(--good) 45%, transparent); } 70%, 100% { box-shadow: 0 0 0 6px transparent; } }
nav { display: flex; flex-wrap: wrap; gap: 6px; }
nav button { padding: 3px 10px; font-size: 13px; max-width: 24ch; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.controls { display: flex; gap: 8px; margin-left: auto; }
.search { position: relative; }
.search input {
  font: inherit; color: inherit; width: 220px; padding: 5px 30px 5px 12px;
  background: var(--faint); border: 1px solid var(--line); border-radius: 8px;
}
.search input::placeholder { color: var(--dim); opacity: 1; }
.search input::-webkit-search-cancel-button { display: none; }
kbd {
  position: absolute; right: 7px; top: 50%; transform: translateY(-50%);
  font: 11px/16px var(--mono); color: var(--dim); padding: 0 5px; border: 1px solid var(--line); border-radius: 4px; background: var(--card);
}

main { max-width: 1680px; margin: 0 auto; padding: 20px 24px 48px; display: grid; gap: 16px; }

.tiles { display: grid; gap: 12px; grid-template-columns: minmax(0, 2.4fr) repeat(4, minmax(0, 1fr)); }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; box-shadow: var(--shadow); }
.tile { padding: 14px 16px; min-width: 0; }
.tile h2 { color: var(--dim); font-size: 13px; }
.figure { font-size: 26px; line-height: 1.25; font-weight: 600; letter-spacing: -0.02em; white-space: nowrap; }
.figure small { font-size: 14px; font-weight: 500; color: var(--dim); letter-spacing: 0; }
.note { color: var(--dim); font-size: 12.5px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-height: 1.45em; }
.wide { display: flex; gap: 20px; align-items: stretch; }
.wide > div { flex: none; min-width: 116px; }
.chart { flex: 1; min-width: 0; width: 100%; height: 72px; align-self: end; border-bottom: 1px solid var(--line); }
.chart .all { fill: var(--accent); opacity: 0.85; }
.chart .failed { fill: var(--bad); }

.parts { list-style: none; display: flex; flex-wrap: wrap; gap: 8px; font-size: 13px; }
.parts li { display: inline-flex; align-items: center; gap: 7px; max-width: 100%; padding: 4px 11px; border: 1px solid var(--line); border-radius: 99px; background: var(--card); }
.parts li::before { content: ''; width: 7px; height: 7px; flex: none; border-radius: 50%; background: var(--dim); }
.parts li[data-state='up']::before { background: var(--good); }
.parts li[data-state='down'] { border-color: var(--bad); background: var(--bad-soft); }
.parts li[data-state='down']::before { background: var(--bad); }
.parts b { font-weight: 500; }
.parts span:empty { display: none; }
.parts span { color: var(--dim); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }

.columns { display: grid; gap: 16px; grid-template-columns: minmax(0, 1.65fr) minmax(0, 1fr); align-items: start; }
.column { display: grid; gap: 16px; min-width: 0; }
.card { min-width: 0; overflow: hidden; }
.card > header { display: flex; align-items: baseline; gap: 8px; padding: 13px 16px 10px; }
.card > header h2 { font-size: 15px; font-weight: 600; letter-spacing: -0.01em; }
.count { color: var(--dim); font-size: 13px; }
.check { margin-left: auto; display: inline-flex; align-items: center; gap: 6px; color: var(--dim); font-size: 13px; cursor: pointer; }
.check input { accent-color: var(--accent); margin: 0; }
.scroll { max-height: 560px; overflow-y: auto; }

table { width: 100%; font-size: 13.5px; border-collapse: collapse; table-layout: fixed; }
th { padding: 4px 6px; color: var(--dim); font-size: 12.5px; font-weight: 500; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
th button { all: unset; cursor: pointer; border-radius: 4px; }
th button:hover { color: var(--text); }
th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort] button { color: var(--text); }
th[aria-sort='descending'] button::after { content: ' ↓'; }
th[aria-sort='ascending'] button::after { content: ' ↑'; }
td { padding: 6px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; border-bottom: 1px solid var(--line); height: 37px; }
tr > :first-child { padding-left: 16px; }
tr > :last-child { padding-right: 16px; }
tbody tr:last-child td { border-bottom: 0; }
tbody tr:hover { background: var(--faint); }
.number { text-align: right; }
td.mono { font-family: var(--mono); font-size: 12.5px; }
.dim, td small { color: var(--dim); }
td small { font-size: inherit; margin-left: 6px; }
.zero { color: var(--dim); opacity: 0.65; }
.bad { color: var(--bad); }
.busy { color: var(--accent); font-weight: 600; }
.act { text-align: right; width: 80px; overflow: visible; }
.act button { padding: 2px 9px; font-size: 13px; color: var(--dim); background: transparent; }
.act button:hover, .act button:focus-visible { color: var(--bad); border-color: var(--bad); }
.act button.armed { color: var(--bad); border-color: var(--bad); background: var(--bad-soft); }
.more { padding: 10px 16px 14px; }

#calls .c-what { width: 34%; }
#calls .c-time { width: 72px; }
#sessions .c-id { width: 78px; }
#sessions .c-principal { width: 18%; }
#sessions .c-revision { width: 96px; }
#sessions .c-age, #sessions .c-idle { width: 56px; }
#sessions .c-calls { width: 50px; }
#sessions .c-streams { width: 68px; }
#sessions .c-log { width: 66px; }
#tools .c-calls { width: 62px; }
#tools .c-errors { width: 54px; }
#tools .c-p50, #tools .c-p95 { width: 70px; }
#tools .c-spark { width: 104px; padding-left: 12px; }
#events thead { display: none; }
#events td { height: 30px; padding-top: 4px; padding-bottom: 4px; font-size: 13px; }
#events .c-at { width: 88px; color: var(--dim); }
#events .c-who { width: 36%; color: var(--dim); }
#events .c-ms { width: 78px; color: var(--dim); }
#events .c-what::before { content: ''; display: inline-block; width: 6px; height: 6px; margin-right: 9px; border-radius: 50%; vertical-align: 2px; background: var(--dim); opacity: 0.5; }
#events tr[data-tone='ok'] .c-what::before { background: var(--good); opacity: 1; }
#events tr[data-tone='bad'] .c-what::before { background: var(--bad); opacity: 1; }
#events tr[data-tone='bad'] small { color: var(--bad); }
.spark { display: block; width: 100%; height: 20px; overflow: visible; }
.spark path { fill: var(--accent-soft); stroke: var(--accent); stroke-width: 1.25; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.spark.still path { stroke: var(--line); fill: none; }

.empty { padding: 6px 16px 18px; color: var(--dim); max-width: 68ch; }
.empty code { display: block; margin-top: 8px; padding: 8px 12px; color: var(--text); background: var(--faint); border: 1px solid var(--line); border-radius: 8px; font: 12.5px/1.5 var(--mono); overflow-wrap: anywhere; user-select: all; }

.toast {
  position: fixed; left: 50%; bottom: 20px; transform: translateX(-50%); z-index: 3;
  max-width: min(560px, calc(100vw - 32px)); padding: 9px 16px;
  color: var(--ground); background: var(--text); border-radius: 10px; box-shadow: 0 8px 24px #00000033;
}

@media (min-width: 1181px) and (max-width: 1400px) { #sessions .c-revision { display: none; } }
@media (max-width: 1180px) {
  .columns { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(4, minmax(0, 1fr)); }
  .wide { grid-column: 1 / -1; }
}
/* Narrow: a row becomes a paragraph, each value with the name of its column before it. */
@media (max-width: 700px) {
  .bar { padding: 10px 14px; }
  .bar h1 { flex: 1; min-width: 0; }
  .controls { width: 100%; margin: 0; }
  .search { flex: 1; }
  .search input { width: 100%; }
  kbd { display: none; }
  main { padding: 14px 14px 40px; gap: 12px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; }
  .tile { padding: 10px 12px; }
  .wide { flex-direction: column; gap: 8px; }
  .chart { height: 48px; align-self: stretch; flex: none; }
  .figure { font-size: 22px; }
  .card > header { padding: 12px 14px 8px; }
  table, tbody { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr { position: relative; display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 14px; padding: 9px 14px; border-bottom: 1px solid var(--line); }
  tbody tr:last-child { border-bottom: 0; }
  tbody td, tr > :first-child, tr > :last-child { display: block; height: auto; width: auto !important; max-width: 100%; padding: 0; border: 0; text-align: left; }
  #sessions td[data-label]::before, #tools td[data-label]::before, #calls td[data-label]::before { content: attr(data-label) ' '; color: var(--dim); font-size: 12.5px; }
  #sessions td.c-id::before, #sessions td.c-client::before, #tools td.c-name::before, #calls td.c-what::before { content: none !important; }
  #sessions td.c-client { flex: 1 0 calc(100% - 170px); max-width: calc(100% - 170px); font-weight: 500; }
  #tools td.c-name, #calls td.c-what { flex: 1 0 100%; font-weight: 500; }
  #calls td.c-what { max-width: calc(100% - 88px); }
  #tools td.c-spark { display: none; }
  tbody td.act { position: absolute; top: 7px; right: 14px; }
  td.blank { display: none !important; }
  #events td { height: auto; padding: 0; }
  #events tbody tr { gap: 0 10px; padding: 6px 14px; }
  #events td.c-what { flex: 1 1 auto; }
  #events td.c-at { order: 2; }
  #events td.c-what { order: 1; flex: 1 0 calc(100% - 92px); max-width: calc(100% - 92px); }
  #events td.c-who { order: 3; } #events td.c-ms { order: 4; }
  #events td.c-who, #events td.c-ms { font-size: 12.5px; }
}
@media (prefers-reduced-motion: reduce) { * { animation: none !important; } }
@media (prefers-contrast: more) { :root { --line: #8a93a3; --dim: currentColor; } }
`;
