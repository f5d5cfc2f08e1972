/** The part of the status page that shows failures: what cannot be reached, and what has failed lately. */

/** The banner at the top; hidden while nothing is down. */
export const TROUBLE = '<ul id="trouble" class="banner bad trouble" aria-label="What is wrong" hidden></ul>'

export const FAILURES_SECTION = `<section aria-labelledby="failures-title">
<div class="head"><h2 id="failures-title">Failed lately</h2><p id="failures-note" class="note"></p></div>
<ul id="failures" class="failures"></ul>
<p class="empty" id="failures-empty">Nothing has failed.</p>
</section>`

export const FAILURES_STYLE = `
:root { --failed: #a21caf; }
@media (prefers-color-scheme: dark) { :root { --failed: #f0a8fb; } }
.state[data-state="failing"] { color: var(--bad); }
.legend span:nth-child(3)::before { background: var(--failed); }
.trouble { list-style: none; margin: 0; }
.trouble li + li { margin-top: 4px; }
.trouble strong { color: var(--bad); }
.failures { list-style: none; margin: 8px 0 0; padding: 0; }
.failures > li { border-bottom: 1px solid var(--line); padding: 5px 0; }
.failures > li:last-child { border-bottom: 0; }
.failures .line { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 10px; }
.failures .target { font-weight: 600; min-width: 0; }
.failures .why { color: var(--bad); }
.failures .who { color: var(--soft); }
.failures .times { margin-left: auto; color: var(--soft); font-variant-numeric: tabular-nums; white-space: nowrap; }
.failures .words { margin: 0; }
@media (max-width: 760px) { .failures .times { margin-left: 0; } }
`
