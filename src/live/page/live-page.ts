import { SCRIPT } from './script.js';
import { STYLE } from './style.js';

/** The icon: two pulses on a line. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' fill='%234f46e5'/%3E%3Cpath d='M5 17h5l3-8 5 14 3-9 2 3h4' fill='none' stroke='white' stroke-width='2.4' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/**
 * Makes the page, all in one. It holds nothing of the server: what it shows comes by its stream.
 *
 * @param nonce of its Content-Security-Policy, which lets this style and script run and no others
 */
export function livePage(nonce: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>MCP live</title>
<link rel="icon" href="${ICON}">
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
${BODY}
<script nonce="${nonce}">${SCRIPT}</script>
</body>
</html>
`;
}

const BODY = `
<header class="bar">
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8"/><path d="M5 17h5l3-8 5 14 3-9 2 3h4"/></svg>
  <h1><bdi id="server">MCP live</bdi></h1>
  <span id="link" class="link" data-state="wait"><i aria-hidden="true"></i><span id="link-text" role="status">Connecting</span></span>
  <nav id="endpoints" aria-label="Endpoints" hidden></nav>
  <div class="controls">
    <label class="search">
      <span class="hidden">Filter</span>
      <input id="filter" type="search" placeholder="Filter" autocomplete="off" spellcheck="false" aria-keyshortcuts="/">
      <kbd aria-hidden="true">/</kbd>
    </label>
    <button id="pause" type="button" aria-pressed="false" aria-keyshortcuts="p" title="Hold the page still (p)">Pause</button>
  </div>
</header>

<main>
  <section class="tiles" aria-label="Overview">
    <div class="tile wide">
      <div><h2>Calls per second</h2><p class="figure" id="rate">–</p><p class="note" id="rate-note">last minute</p></div>
      <svg id="chart" class="chart" viewBox="0 0 300 48" preserveAspectRatio="none" role="img" aria-label="Calls of the last minute">
        <path class="all"/><path class="failed"/>
      </svg>
    </div>
    <div class="tile"><h2>Running</h2><p class="figure" id="running">–</p><p class="note" id="running-note"></p></div>
    <div class="tile"><h2>Sessions</h2><p class="figure" id="live">–</p><p class="note" id="live-note"></p></div>
    <div class="tile"><h2>Open streams</h2><p class="figure" id="streams">–</p><p class="note" id="streams-note"></p></div>
    <div class="tile"><h2>Event log</h2><p class="figure" id="logged">–</p><p class="note" id="logged-note"></p></div>
  </section>

  <ul class="parts" id="parts" aria-label="Stores, bus and nodes"></ul>

  <div class="columns">
    <div class="column">
      <section class="card" aria-labelledby="calls-title">
        <header><h2 id="calls-title">Running now</h2><span class="count" id="calls-count"></span></header>
        <div id="calls"></div>
      </section>
      <section class="card" aria-labelledby="sessions-title">
        <header><h2 id="sessions-title">Sessions</h2><span class="count" id="sessions-count"></span></header>
        <div id="sessions"></div>
      </section>
    </div>
    <div class="column">
      <section class="card" aria-labelledby="tools-title">
        <header><h2 id="tools-title">Tools</h2><span class="count" id="tools-count"></span></header>
        <div id="tools"></div>
      </section>
      <section class="card" aria-labelledby="events-title">
        <header>
          <h2 id="events-title">Events</h2><span class="count" id="events-count"></span>
          <label class="check"><input type="checkbox" id="problems"> Problems only</label>
        </header>
        <div id="events" class="scroll" tabindex="0" role="region" aria-labelledby="events-title"></div>
      </section>
    </div>
  </div>
</main>

<p id="toast" class="toast" role="status" hidden></p>
<noscript><p class="empty">This page needs JavaScript: it draws what the server tells it.</p></noscript>
`;
