/** How the status page behaves under a hand: orders that hold still, values of charts, small screens. */
import { writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import type { Locator, Page } from 'playwright-core'
import { freePort } from '../kit/peers/free-port.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { needs } from '../kit/processes/command.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'
import { artifactsFolder, BROWSER, openPage, screenshot, startBrowser } from './browser.js'
import { allowing, needsBuild, type Sluice, startSluice } from './program.js'

const skip = needsBuild() || needs(BROWSER)
const WIDE = { viewport: { width: 1280, height: 900 } }
const PHONE = { viewport: { width: 390, height: 844 } }

async function deny(t: Test, { proxyPort }: Sluice, authority: string): Promise<void> {
  const client = await rawClient(t, proxyPort)
  client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  t.match(await client.untilEnd(), /^HTTP\/1\.1 403 /)
}

const state = (page: Page, name: string) => page.locator(`#state[data-state="${name}"]`).waitFor()

/** Waits until the texts of all that a locator finds are as expected. */
const untilTexts = (what: string, locator: Locator, isDone: (texts: readonly string[]) => boolean) =>
  until(what, async () => ((await locator.allTextContents().then(isDone)) ? true : undefined), {
    everyMs: OTHER_PROCESS_MS,
  })

t.test('tunnels are sorted by bytes first, and no row moves under the pointer', { skip }, async t => {
  const origins = await Promise.all([rawOrigin(t), rawOrigin(t), rawOrigin(t)])
  const sluice = await startSluice(t, allowing(...origins.map(({ port }) => port)))
  const tunnels = []
  for (const origin of origins) tunnels.push(await openTunnel(t, { port: sluice.proxyPort }, origin))
  const [small, large, middle] = origins.map(({ authority }) => authority)
  for (const [i, bytes] of [10, 3000, 200].entries()) tunnels[i]?.client.write('x'.repeat(bytes))
  const browser = await startBrowser(t)
  const { page, complaints } = await openPage(t, browser, `${sluice.adminUrl}/`, WIDE)
  await state(page, 'ready')
  const names = page.locator('#tunnels tbody th')
  const isOrder =
    (...expected: (string | undefined)[]) =>
    (texts: readonly string[]) =>
      texts.join(' ') === expected.map(authority => `${authority}127.0.0.1`).join(' ')
  await untilTexts('the order by bytes', names, isOrder(large, middle, small))
  const total = page.getByRole('columnheader', { name: 'total' })
  t.equal(await total.getAttribute('aria-sort'), 'descending')

  await page.locator('#tunnels tbody tr').first().hover()
  tunnels[0]?.client.write('x'.repeat(9000))
  await page.locator('#tunnels tbody').getByText('8.8 KiB').first().waitFor()
  t.ok(isOrder(large, middle, small)(await names.allTextContents()), 'the order holds still')
  t.match(
    await page.locator('#tunnels-note').textContent(),
    'the order holds still while you are in the table',
  )
  tunnels[2]?.client.end()
  tunnels[2]?.upstream.end()
  await page.locator('#tunnels tbody tr.gone').waitFor()
  t.ok(isOrder(large, middle, small)(await names.allTextContents()), 'what has ended keeps its place')
  await page.mouse.move(0, 0)
  await untilTexts('the order by bytes again', names, isOrder(small, large))

  await page.getByRole('button', { name: 'up', exact: true }).click()
  await page.getByRole('button', { name: 'up', exact: true }).click()
  t.equal(await page.getByRole('columnheader', { name: 'up' }).getAttribute('aria-sort'), 'ascending')
  t.equal(await total.getAttribute('aria-sort'), null)
  t.ok(isOrder(large, small)(await names.allTextContents()))
  tunnels[1]?.client.write('x'.repeat(500))
  await page.locator('#tunnels tbody').getByText('3.4 KiB').first().waitFor()
  t.ok(isOrder(large, small)(await names.allTextContents()), 'an update keeps the chosen order')
  t.same(complaints, [])
})

t.test(
  'more than 25 tunnels are counted and shown by a button, in no scroll of their own',
  { skip },
  async t => {
    const origin = await rawOrigin(t)
    const sluice = await startSluice(t, allowing(origin.port))
    for (let i = 0; i < 27; i++) await openTunnel(t, { port: sluice.proxyPort }, origin)
    const browser = await startBrowser(t)
    for (const options of [WIDE, PHONE]) {
      const { page } = await openPage(t, browser, `${sluice.adminUrl}/`, options)
      await state(page, 'ready')
      const rows = page.locator('#tunnels tbody tr')
      await untilTexts('the first rows', rows, ({ length }) => length === 25)
      await page.getByRole('button', { name: 'Show all 27' }).click()
      t.equal(await rows.count(), 27)
      const scrolling = await page.evaluate<string[]>(`[...document.querySelectorAll('body *')]
      .filter(element => element.scrollHeight > element.clientHeight + 1 || element.scrollWidth > element.clientWidth + 1)
      .filter(element => /auto|scroll/.test(getComputedStyle(element).overflow))
      .map(element => element.outerHTML.slice(0, 60))`)
      t.same(scrolling, [])
      await page.close()
    }
  },
)

t.test(
  'a refusal that comes again moves nothing, and a new one waits for the pointer to leave',
  { skip },
  async t => {
    const sluice = await startSluice(t, allowing(80))
    const browser = await startBrowser(t)
    await deny(t, sluice, 'one.test:443')
    await deny(t, sluice, 'two.test:443')
    const { page } = await openPage(t, browser, `${sluice.adminUrl}/`, WIDE)
    const targets = page.locator('#denials .target')
    const is = (texts: readonly string[], ...hosts: string[]) =>
      texts.join() === hosts.map(host => `${host}.test:443`).join()
    await untilTexts('both refusals', targets, texts => is(texts, 'two', 'one'))
    await deny(t, sluice, 'one.test:443')
    await page.locator('#denials .times', { hasText: '2×' }).waitFor()
    t.ok(is(await targets.allTextContents(), 'two', 'one'))
    await page.locator('#denials summary').first().hover()
    await deny(t, sluice, 'three.test:443')
    await page.getByText('1 new, shown when you leave the list').waitFor()
    t.ok(is(await targets.allTextContents(), 'two', 'one'))
    await page.mouse.move(0, 0)
    await untilTexts('the new one', targets, texts => is(texts, 'three', 'two', 'one'))
  },
)

t.test('a metadata service comes with what it hands out, and without YAML to copy', { skip }, async t => {
  const sluice = await startSluice(t, allowing(80))
  const browser = await startBrowser(t)
  await deny(t, sluice, '169.254.169.254:80')
  const { page } = await openPage(t, browser, `${sluice.adminUrl}/`, WIDE)
  await page.locator('#denials summary').click()
  await page.getByText('It hands out the cloud credentials and the user data of the machine').waitFor()
  t.equal(await page.locator('#denials').getByRole('button').count(), 0)
  t.notMatch(await page.locator('#denials').textContent(), /Add 169/)
})

t.test(
  'observe mode and a rejected file stand at the top, with the file and its problem',
  { skip },
  async t => {
    const yaml = allowing(80)
    const sluice = await startSluice(t, yaml)
    const browser = await startBrowser(t)
    const folder = await artifactsFolder(t)
    const { page, complaints } = await openPage(t, browser, `${sluice.adminUrl}/`, WIDE)
    await state(page, 'ready')
    const observing = page.getByText('Observe mode: the rules are not enforced.')
    t.equal(await observing.isVisible(), false)
    const wouldDeny = page.locator('.tiles div', { hasText: 'would be refused/s' })
    t.equal(await wouldDeny.isVisible(), false)
    await writeFile(sluice.configFile, `${yaml}mode: observe\n`)
    await observing.waitFor()
    await state(page, 'observe')
    await wouldDeny.waitFor()
    t.equal(await page.title(), 'Sluice: observe mode: nothing is enforced')
    await writeFile(sluice.configFile, `${yaml}mode: observe\nrulez: {}\n`)
    const banner = page.locator('#rejected-banner')
    await banner.getByText(`${sluice.configFile}:7:1: rulez: unknown key`).waitFor()
    t.match(
      await banner.textContent(),
      /Read at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; the configuration before it, \w+, stays/,
    )
    await screenshot(page, folder, 'status-observe')
    const elsewhere = await openPage(t, browser, `${sluice.adminUrl}/`, { timezoneId: 'Asia/Kolkata' })
    const read = elsewhere.page.locator('#rejected-text')
    await read.getByText('Read at').waitFor()
    t.match(await read.textContent(), /^Read at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+05:30;/)
    await elsewhere.page.close()
    await writeFile(sluice.configFile, yaml)
    await banner.waitFor({ state: 'hidden' })
    await state(page, 'ready')
    await wouldDeny.waitFor({ state: 'hidden' })
    t.same(complaints, [])
  },
)

t.test('a tile says how much would be refused, as long as the rules are not enforced', { skip }, async t => {
  const dns = `dns: { servers: ["127.0.0.1:${await freePort()}"], timeout: 1s }\n`
  const sluice = await startSluice(t, `${allowing(80)}${dns}mode: observe\n`)
  const browser = await startBrowser(t)
  const { page, complaints } = await openPage(t, browser, `${sluice.adminUrl}/`, WIDE)
  await state(page, 'observe')
  const client = await rawClient(t, sluice.proxyPort)
  client.write('CONNECT unlisted.test:443 HTTP/1.1\r\nHost: unlisted.test:443\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 50[24] /)
  const tile = page.locator('.tiles div', { hasText: 'would be refused/s' })
  await untilTexts('a would-be refusal', tile.locator('dd'), ([rate]) => Number(rate) > 0)
  t.same(complaints, [])
})

t.test('a chart tells its values to the pointer and to the keyboard', { skip }, async t => {
  const sluice = await startSluice(t, allowing(80))
  const browser = await startBrowser(t)
  const { page, complaints } = await openPage(t, browser, `${sluice.adminUrl}/`, WIDE)
  await state(page, 'ready')
  await deny(t, sluice, 'one.test:443')
  const chart = page.getByRole('slider', { name: 'Requests, per second' })
  const reading = page.locator('#chart-requests .reading')
  await chart.focus()
  t.equal(await reading.isVisible(), false)
  const told = await until(
    'a second with a refusal',
    async () => {
      await page.keyboard.press('End')
      for (let back = 0; back < 20; back++) {
        const text = await chart.getAttribute('aria-valuetext')
        if (text?.endsWith('requests 1/s, refused 1/s, failed 0/s') === true) return text
        await page.keyboard.press('ArrowLeft')
      }
      return undefined
    },
    { everyMs: OTHER_PROCESS_MS },
  )
  const [, time = ''] = /^(\d\d:\d\d:\d\d): /.exec(told) ?? []
  t.not(time, '')
  t.equal(await reading.textContent(), `${time}requests1/srefused1/sfailed0/s`)
  const at = Number(await chart.getAttribute('aria-valuenow'))
  await until(
    'the next update',
    async () => (Number(await chart.getAttribute('aria-valuenow')) !== at ? true : undefined),
    { everyMs: OTHER_PROCESS_MS },
  )
  t.equal(await chart.getAttribute('aria-valuetext'), told, 'the second that was chosen stays chosen')
  await page.keyboard.press('Escape')
  t.equal(await reading.isVisible(), false)
  await page.locator('#chart-tunnels .u-over').hover()
  const tunnels = page.locator('#chart-tunnels .reading')
  await tunnels.waitFor()
  t.match(await tunnels.textContent(), /^\d\d:\d\d:\d\dopen(\d+|–)$/)
  await page.mouse.move(0, 0)
  await tunnels.waitFor({ state: 'hidden' })
  t.same(complaints, [])
})

/** Words of which a part stands on another line: letters and digits that nothing separates. */
const BROKEN_WORDS = `(() => {
  const broken = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const node = walker.currentNode
    if (node.parentElement.closest('script, style, .unseen') !== null) continue
    for (const match of node.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      const range = document.createRange()
      range.setStart(node, match.index)
      range.setEnd(node, match.index + match[0].length)
      const tops = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)))
      if (tops.size > 1) broken.push(match[0])
    }
  }
  return broken
})()`

const SMALL_CONTROLS = `[...document.querySelectorAll('button, input, select, summary, a')]
  .filter(element => element.checkVisibility() && !element.matches('.skip'))
  .map(element => ({ text: element.textContent || element.id, box: element.getBoundingClientRect() }))
  .filter(({ box }) => box.height < 40 || box.width < 40)
  .map(({ text, box }) => text + ' ' + box.width + ' x ' + box.height)`

t.test('at 390 pixels no word is broken, and no control is smaller than 40 pixels', { skip }, async t => {
  const origin = await rawOrigin(t)
  const sluice = await startSluice(t, `${allowing(origin.port)}mode: enforce\n`)
  for (const host of [
    'packages.elsewhere.example',
    '10.20.30.40',
    'a-host-with-a-rather-long-name.and-a-long-domain.example',
  ]) {
    await deny(t, sluice, `${host}:8443`)
  }
  await openTunnel(t, { port: sluice.proxyPort }, origin)
  const browser = await startBrowser(t)
  const folder = await artifactsFolder(t)
  const { page } = await openPage(t, browser, `${sluice.adminUrl}/`, PHONE)
  await state(page, 'ready')
  await writeFile(sluice.configFile, 'version: 1\nrulez: {}\n')
  await page.locator('#rejected-banner').waitFor()
  await page.locator('summary', { hasText: 'Limits' }).click()
  for (const summary of await page.locator('#denials summary').all()) await summary.click()
  t.same(await page.evaluate<string[]>(BROKEN_WORDS), [])
  t.same(await page.evaluate<string[]>(SMALL_CONTROLS), [])
  t.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390)
  await screenshot(page, folder, 'status-390')
  await page.getByRole('button', { name: 'Close the tunnel' }).click()
  await page.getByRole('dialog').waitFor()
  t.same(await page.evaluate<string[]>(SMALL_CONTROLS), [])
  t.same(await page.evaluate<string[]>(BROKEN_WORDS), [])
})
