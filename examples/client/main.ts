// A Nest app without a server of its own that calls another one: searches the documents of the quickstart for its argument.
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { tap } from 'rxjs';
import { AppModule } from './app.module.js';
import { DocsSearch } from './docs-search.service.js';

const [query = 'session'] = process.argv.slice(2);
const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
// Ctrl-C cancels the search, and ends the session on the server.
app.enableShutdownHooks();

const lines$ = app
  .get(DocsSearch)
  .search$(query)
  .pipe(
    // The first column, and what is left there of the line before: erased.
    tap(({ text, passing }) => process.stdout.write(`\r\u001B[2K${text}${passing ? '' : '\n'}`)),
  );
try {
  await new Promise<void>((resolve, reject) => {
    lines$.subscribe({ error: reject, complete: resolve });
  });
} catch (error) {
  console.error(`\nThe search failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await app.close();
}
