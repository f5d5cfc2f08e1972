/** A real Chromium, which can reach only this machine. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { Test } from 'tap'
import { temporaryDirectory } from '../kit/processes/command.js'

const EXECUTABLE = '/usr/bin/chromium'

export const BROWSER = 'chromium'

export interface WatchedPage {
  readonly page: Page
  /** The problems that the browser has reported: errors, and violations of the page's Content-Security-Policy. */
  readonly complaints: readonly string[]
}

export async function startBrowser(t: Test): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: EXECUTABLE,
    args: [
      // The tests run as root, where Chromium has no sandbox.
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--no-proxy-server',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
    ],
  })
  t.teardown(() => browser.close())
  return browser
}

export async function openPage(
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ locale: 'en', timezoneId: 'UTC', ...options })
  t.teardown(() => context.close())
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', message => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', error => complaints.push(String(error)))
  page.on('request', request => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) complaints.push(request.url())
  })
  await page.goto(url)
  return { page, complaints }
}

/** A folder for files to be inspected after a run: that of the environment, or one that is removed. */
export async function artifactsFolder(t: Test): Promise<string> {
  const folder = process.env['SLUICE_TEST_ARTIFACTS']
  if (folder === undefined) return temporaryDirectory(t)
  await mkdir(folder, { recursive: true })
  return folder
}

export async function screenshot(page: Page, folder: string, name: string): Promise<void> {
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
}
