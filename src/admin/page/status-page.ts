/**
 * The status page as one document that asks for nothing else: its styles and scripts stand in it, and its Content-Security-Policy
 * names them by their hashes, so that nothing runs there that did not come with the program.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { STATUS_STYLE } from './status-style.js'
import { STATUS_MARKUP } from './status-markup.js'

export interface StatusPage {
  readonly html: string
  readonly contentSecurityPolicy: string
}

/** Compiled from client/, in the order in which one uses what another has: they share one scope. */
const SCRIPTS = ['format', 'elements', 'charts', 'figures', 'denials', 'tunnels', 'main']

/** @throws the system's error when a file of it is not there */
export function readStatusPage(): StatusPage {
  const { resolve } = createRequire(import.meta.url)
  const read = (path: string | URL): string => readFileSync(path, 'utf8')
  const client = SCRIPTS.map(name => read(new URL(`./client/${name}.js`, import.meta.url))).join('\n')
  const styles = [read(resolve('uplot/dist/uPlot.min.css')), STATUS_STYLE]
  const scripts = [
    read(resolve('uplot/dist/uPlot.iife.min.js')),
    `(() => {\n'use strict'\n${client}\nstart()\n})()`,
  ]
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sluice</title>
<link rel="icon" href="data:,">
${styles.map(text => `<style>${enclosed(text, 'style')}</style>`).join('\n')}
</head>
<body>
${STATUS_MARKUP}
${scripts.map(text => `<script>${enclosed(text, 'script')}</script>`).join('\n')}
</body>
</html>
`
  const policy = [
    "default-src 'none'",
    `script-src ${scripts.map(hashSource).join(' ')}`,
    `style-src ${styles.map(hashSource).join(' ')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ]
  return { html, contentSecurityPolicy: policy.join('; ') }
}

/** @throws RangeError when it would end its element */
function enclosed(text: string, element: 'script' | 'style'): string {
  if (text.toLowerCase().includes(`</${element}`)) throw new RangeError(`</${element} in a ${element}`)
  return text
}

/** CSP Level 3 §2.3.1. */
function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}
