// #region controller
import { Controller, Get, Module, Param } from '@nestjs/common';
import { Tools } from 'nestjs-mcp-streamable/decorators';

@Controller('invoices')
@Tools()
export class InvoicesController {
  @Get(':id')
  find(@Param('id') id: string): object {
    return { id, total: 30 };
  }
}
// #endregion

// #region module
/** The rest of the package, and the SDK, are loaded here or nowhere. */
const mcp = async () => ({ module: (await import('./off-by-default.mcp.js')).McpModule });

@Module({
  imports: process.env['MCP'] === 'on' ? [mcp()] : [],
  controllers: [InvoicesController],
})
export class AppModule {}
// #endregion
