# Writes OUTPUT, a C++ file with the style and the scripts of FOLDER and with CHARTS, which is Chart.js (see
# assets.hpp). Stops if one of them could end the HTML element that will hold it, or would not arrive in the
# page as it is.
function(embed name)
  set(text "")
  foreach(file IN LISTS ARGN)
    file(READ ${file} part)
    string(APPEND text "${part}")
  endforeach()
  string(TOLOWER "${text}" lower)
  foreach(forbidden "</script" "</style" "<!--" ")asset\"" "\r")
    string(FIND "${lower}" "${forbidden}" place)
    if(NOT place EQUAL -1)
      message(FATAL_ERROR "${ARGN} contains '${forbidden}' and cannot be embedded in a page")
    endif()
  endforeach()
  string(SHA256 hash "${text}")
  file(APPEND ${OUTPUT}.new "const std::string_view ${name} = R\"asset(${text})asset\";\n"
                            "const std::string_view ${name}_hash = \"${hash}\";\n")
endfunction()

file(READ ${CHARTS} opening LIMIT 200)
if(NOT opening MATCHES "Chart\\.js v3\\." OR NOT opening MATCHES "MIT License")
  message(FATAL_ERROR "${CHARTS} is not Chart.js 3 with its licence at the beginning")
endif()

file(WRITE ${OUTPUT}.new "#include \"assets.hpp\"\n\nnamespace report::assets {\n\n")
embed(style ${FOLDER}/page.css)
embed(script ${FOLDER}/page.js ${FOLDER}/tables.js ${FOLDER}/draw.js)
embed(charts ${CHARTS})
file(APPEND ${OUTPUT}.new "\n}  // namespace report::assets\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
