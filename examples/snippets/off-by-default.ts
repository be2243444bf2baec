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
/** Only this function loads the rest of the package, and the SDK. */
const mcp = async () => ({ module: (await import('./off-by-default.mcp.js')).McpModule });

@Module({
  imports: process.env['MCP'] === 'on' ? [mcp()] : [],
  controllers: [InvoicesController],
})
export class AppModule {}
// #endregion
